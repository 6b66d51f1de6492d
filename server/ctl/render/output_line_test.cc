#include "server/ctl/render/output_line.h"

#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

v1::LogLine Line(const std::string& event, const std::string& fields) {
  v1::LogLine line;
  line.set_event(event);
  line.set_fields(fields);
  return line;
}

TEST(ParseOutputLineTest, ReadsWhatTheWorkerLogs) {
  EXPECT_EQ(ParseOutputLine(Line("command.stdout",
                                 "generation=2 job=run-1 rank=3 text=hello")),
            (OutputLine{"run-1", 3, false, "hello"}));
  EXPECT_EQ(
      ParseOutputLine(Line("command.stderr",
                           R"(job=run-1 rank=0 text="a \"b\" = c\\d\te\x1b")")),
      (OutputLine{"run-1", 0, true, "a \"b\" = c\\d\te\x1b"}));
  EXPECT_EQ(
      ParseOutputLine(Line("command.stdout", R"(job=run-1 rank=0 text="")")),
      (OutputLine{"run-1", 0, false, ""}));
}

TEST(ParseOutputLineTest, LeavesOtherLinesAlone) {
  EXPECT_EQ(ParseOutputLine(Line("command.started", "rank=0 text=x")),
            std::nullopt);
  EXPECT_EQ(ParseOutputLine(Line("command.stdout", "text=x")), std::nullopt);
  // Cut short, as by a limit of what is kept.
  EXPECT_EQ(ParseOutputLine(Line("command.stdout", R"(rank=0 text="abc)")),
            (OutputLine{"", 0, false, "abc"}));
}

TEST(OutputLineTest, IsShownWithItsRank) {
  EXPECT_EQ(ToText({"run-1", 12, false, "step 3"}), "[12] step 3");
}

}  // namespace
}  // namespace ringmaster::ctl
