#include "common/logging/log_proto.h"

#include "absl/time/time.h"
#include "common/protocol/proto_time.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(LogProtoTest, AFilterThatSaysNothingSelectsAll) {
  const LogSelection selection = ToLogSelection(v1::LogFilter(), 0, 100);
  EXPECT_EQ(selection.least, LogLevel::kDebug);
  EXPECT_EQ(selection.since, absl::InfinitePast());
  EXPECT_EQ(selection.tail, 0);
  EXPECT_EQ(selection.max_bytes, 100u);
}

TEST(LogProtoTest, AFilterIsPassedOn) {
  v1::LogFilter filter;
  filter.set_min_severity(v1::LOG_SEVERITY_WARNING);
  filter.set_tail(5);
  *filter.mutable_since() = ToProto(absl::FromUnixSeconds(9));
  const LogSelection selection = ToLogSelection(filter, 7, 100);
  EXPECT_EQ(selection.least, LogLevel::kWarning);
  EXPECT_EQ(selection.since, absl::FromUnixSeconds(9));
  EXPECT_EQ(selection.tail, 5);
  EXPECT_EQ(selection.after_sequence, 7);
}

TEST(LogProtoTest, ASeverityOfALaterReleaseSelectsAll) {
  v1::LogFilter filter;
  filter.set_min_severity(static_cast<v1::LogSeverity>(99));
  EXPECT_EQ(ToLogSelection(filter, 0, 0).least, LogLevel::kDebug);
}

TEST(LogProtoTest, ALineKeepsAllItHas) {
  const LogLines lines = {.lines = {{.sequence = 4,
                                     .time = absl::FromUnixSeconds(3),
                                     .level = LogLevel::kError,
                                     .event = "disk.full",
                                     .fields = "rank=1"}},
                          .first_held_sequence = 2,
                          .last_sequence = 4,
                          .left_out_count = 1};
  const v1::LogPage page = ToProto(lines);
  ASSERT_EQ(page.lines_size(), 1);
  EXPECT_EQ(page.lines(0).sequence(), 4);
  EXPECT_EQ(FromProto(page.lines(0).time()), absl::FromUnixSeconds(3));
  EXPECT_EQ(page.lines(0).severity(), v1::LOG_SEVERITY_ERROR);
  EXPECT_EQ(page.lines(0).event(), "disk.full");
  EXPECT_EQ(page.lines(0).fields(), "rank=1");
  EXPECT_EQ(page.first_held_sequence(), 2);
  EXPECT_EQ(page.last_sequence(), 4);
  EXPECT_EQ(page.left_out_count(), 1);
}

}  // namespace
}  // namespace ringmaster
