#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/ctl/commands/testing/ctl_test.h"
#include "server/ctl/terminal/screen.h"

namespace ringmaster::ctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TopCommandTest : public CtlTest {
 protected:
  TopCommandTest() {
    v1::Status status;
    status.mutable_coordinator()->set_host("alpha");
    v1::Job& job = *status.add_jobs();
    job.set_id("x-1");
    job.set_state(v1::JOB_STATE_RUNNING);
    job.add_members()->set_worker("w0");
    coordinator_.SetStatus(status);
  }
};

int CountOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1))
    ++count;
  return count;
}

TEST_F(TopCommandTest, OneScreenWhereThereIsNoTerminal) {
  const Outcome outcome = RunThere({"top"});
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("coordinator on alpha"), HasSubstr("x-1"),
                    HasSubstr("w0"), Not(HasSubstr("\x1b"))));
  EXPECT_EQ(CountOf(outcome.out, "coordinator on"), 1);
}

TEST_F(TopCommandTest, AsManyUpdatesAsAreWanted) {
  const Outcome screens =
      RunThere({"top", "--updates=3", "--every=100ms"}, /*is_terminal=*/true);
  EXPECT_EQ(CountOf(screens.out, "coordinator on"), 3);
  EXPECT_THAT(screens.out, ::testing::EndsWith(std::string(kShowCursor)));
  const std::string lines =
      RunThere({"top", "--updates=2", "--every=100ms", "-o", "json"}).out;
  EXPECT_EQ(CountOf(lines, "\n"), 2);
  const auto json = nlohmann::json::parse(lines.substr(0, lines.find('\n')));
  EXPECT_EQ(json["jobs"][0]["id"], "x-1");
}

TEST_F(TopCommandTest, WrongFlagsAreRefused) {
  ExpectError(RunThere({"top", "--every=0s"}), ExitCode::kUsage, "--every");
  ExpectError(RunThere({"top", "--updates=-1"}), ExitCode::kUsage, "--updates");
}

TEST(TopTest, ACoordinatorMustAnswerFirst) {
  ExpectError(RunCtl({"top", "--coordinator=127.0.0.1:1", "--timeout=1s"},
                     /*is_terminal=*/true),
              ExitCode::kRetryElsewhere, "127.0.0.1:1");
}

}  // namespace
}  // namespace ringmaster::ctl
