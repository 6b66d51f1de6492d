#include "worker/supervisor/child_exit.h"

#include <csignal>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/agent/rpc/worker_identity.h"

namespace ringmaster {
namespace {

// Linux's layout of a wait status.
constexpr int Exited(int code) { return code << 8; }
constexpr int Signalled(int signal) { return signal; }

TEST(ChildExitTest, KeepsTheCodesOfTheTable) {
  EXPECT_EQ(ChildExitCode(Exited(0)), ExitCode::kDone);
  EXPECT_EQ(ChildExitCode(Exited(2)), ExitCode::kUsage);
  EXPECT_EQ(ChildExitCode(Exited(138)), ExitCode::kRetryElsewhere);
  EXPECT_EQ(ChildExitCode(Exited(143)), ExitCode::kStopped);
}

TEST(ChildExitTest, CallsAnyOtherCodeInternal) {
  EXPECT_EQ(ChildExitCode(Exited(127)), ExitCode::kInternal);
}

TEST(ChildExitTest, TellsCrashesFromKills) {
  EXPECT_EQ(ChildExitCode(Signalled(SIGSEGV)), ExitCode::kInternal);
  EXPECT_EQ(ChildExitCode(Signalled(SIGABRT)), ExitCode::kInternal);
  EXPECT_EQ(ChildExitCode(Signalled(SIGKILL)), ExitCode::kRetryElsewhere);
  EXPECT_EQ(ChildExitCode(Signalled(SIGTERM)), ExitCode::kStopped);
  EXPECT_EQ(ChildExitCode(Signalled(SIGINT)), ExitCode::kStopped);
}

TEST(ChildExitTest, TellsWhatAnotherStartWouldDo) {
  const std::vector<std::pair<int, ChildEnd>> kCases = {
      {Exited(0), ChildEnd::kWanted},
      {Exited(143), ChildEnd::kWanted},
      {Signalled(SIGTERM), ChildEnd::kWanted},
      {Exited(2), ChildEnd::kPermanent},
      {Exited(3), ChildEnd::kPermanent},
      {Exited(4), ChildEnd::kPermanent},
      {Exited(5), ChildEnd::kPermanent},
      {Exited(1), ChildEnd::kCrash},
      {Exited(126), ChildEnd::kCrash},
      {Signalled(SIGSEGV), ChildEnd::kCrash},
      {Signalled(SIGABRT), ChildEnd::kCrash},
      {Exited(138), ChildEnd::kFromOutside},
      {Signalled(SIGKILL), ChildEnd::kFromOutside},
      {Signalled(SIGHUP), ChildEnd::kFromOutside}};
  for (const auto& [status, kind] : kCases) {
    EXPECT_EQ(KindOfChildEnd(status), kind) << DescribeChildExit(status);
  }
}

TEST(ChildExitTest, WritesAPredecessorDown) {
  EXPECT_EQ(PredecessorText(12, Exited(138)), "12:138:0");
  EXPECT_EQ(PredecessorText(12, Signalled(SIGKILL)), "12:0:9");
  // This is how the next process reads it.
  const ProcessEnd exited{.pid = 12, .exit_code = 138, .signal = 0};
  EXPECT_EQ(*ParsePredecessor(PredecessorText(12, Exited(138))), exited);
  const ProcessEnd killed{.pid = 12, .exit_code = 0, .signal = SIGKILL};
  EXPECT_EQ(*ParsePredecessor(PredecessorText(12, Signalled(SIGKILL))), killed);
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
