#include "server/ctl/render/log_view.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::GetLogsResponse OneLog(int64_t first_held, int64_t last) {
  v1::GetLogsResponse response;
  v1::ProcessLog& log = *response.add_logs();
  log.set_name("w0");
  log.set_incarnation(7);
  log.mutable_page()->set_first_held_sequence(first_held);
  log.mutable_page()->set_last_sequence(last);
  return response;
}

TEST(LogViewTest, LinesThatFollowOneAnotherLeaveNoGap) {
  EXPECT_THAT(LogGaps(OneLog(40, 60), {}), IsEmpty());
  EXPECT_THAT(LogGaps(OneLog(40, 60), {{7, 39}}), IsEmpty());
  EXPECT_THAT(LogGaps(OneLog(40, 60), {{8, 3}}), IsEmpty());
}

TEST(LogViewTest, CountsTheLinesThatWereOverwrittenBeforeTheyWereRead) {
  EXPECT_THAT(LogGaps(OneLog(40, 60), {{7, 37}}),
              ElementsAre("2 lines of w0 gone: it wrote more than it keeps"));
}

TEST(LogViewTest, SaysThatAProcessKeepsNoLines) {
  EXPECT_THAT(LogGaps(OneLog(0, 60), {}),
              ElementsAre("w0 keeps no lines in memory (--log_kept)"));
}

TEST(LogViewTest, LinesOfOneInstantStayInOrder) {
  v1::GetLogsResponse response = OneLog(1, 2);
  for (const char* event : {"b", "a"})
    response.mutable_logs(0)->mutable_page()->add_lines()->set_event(event);
  EXPECT_THAT(LogTextLines(response, false, Style{}),
              ElementsAre("1970-01-01T00:00:00.000+00:00 I b",
                          "1970-01-01T00:00:00.000+00:00 I a"));
}

TEST(LogViewTest, ShowsWhatACommandPrintsWithItsRank) {
  v1::GetLogsResponse response = OneLog(1, 1);
  v1::LogLine& line = *response.mutable_logs(0)->mutable_page()->add_lines();
  line.set_event("command.stdout");
  line.set_fields(R"(job=run-1 rank=3 text="epoch 2")");
  EXPECT_THAT(LogTextLines(response, false, Style{}),
              ElementsAre("1970-01-01T00:00:00.000+00:00 [3] epoch 2"));
}

}  // namespace
}  // namespace ringmaster::ctl
