#include "worker/supervisor/child_exit.h"

#include <csignal>
#include <vector>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

// Linux's layout of a wait status.
constexpr int Exited(int code) { return code << 8; }
constexpr int Signalled(int signal) { return signal; }

TEST(ChildExitTest, KeepsTheCodesOfTheTable) {
  EXPECT_EQ(ChildExitCode(Exited(0), false), ExitCode::kDone);
  EXPECT_EQ(ChildExitCode(Exited(2), false), ExitCode::kUsage);
  EXPECT_EQ(ChildExitCode(Exited(138), false), ExitCode::kRetryElsewhere);
  EXPECT_EQ(ChildExitCode(Exited(143), true), ExitCode::kStopped);
}

TEST(ChildExitTest, CallsAnyOtherCodeInternal) {
  EXPECT_EQ(ChildExitCode(Exited(127), false), ExitCode::kInternal);
}

TEST(ChildExitTest, TellsCrashesFromKills) {
  EXPECT_EQ(ChildExitCode(Signalled(SIGSEGV), false), ExitCode::kInternal);
  EXPECT_EQ(ChildExitCode(Signalled(SIGABRT), true), ExitCode::kInternal);
  EXPECT_EQ(ChildExitCode(Signalled(SIGKILL), false),
            ExitCode::kRetryElsewhere);
  EXPECT_EQ(ChildExitCode(Signalled(SIGTERM), true), ExitCode::kStopped);
  EXPECT_EQ(ChildExitCode(Signalled(SIGTERM), false),
            ExitCode::kRetryElsewhere);
}

TEST(ChildExitTest, DescribesAnEnd) {
  EXPECT_EQ(DescribeChildExit(Exited(2)), "exit code 2");
  EXPECT_EQ(DescribeChildExit(Signalled(SIGKILL)), "signal 9 (Killed)");
}

TEST(ChildExitTest, TheWorstCodeIsTheMostPermanentOne) {
  using enum ExitCode;
  EXPECT_EQ(WorstExitCode({}), kDone);
  EXPECT_EQ(WorstExitCode(std::vector{kDone, kDone}), kDone);
  EXPECT_EQ(WorstExitCode(std::vector{kDone, kStopped}), kStopped);
  EXPECT_EQ(WorstExitCode(std::vector{kStopped, kRetryElsewhere}),
            kRetryElsewhere);
  EXPECT_EQ(WorstExitCode(std::vector{kRetryElsewhere, kUsage, kUnreadable}),
            kUsage);
}

}  // namespace
}  // namespace ringmaster
