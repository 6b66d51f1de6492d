#include "worker/supervisor/restart_policy.h"

#include <csignal>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Linux's layout of a wait status.
constexpr int Exited(int code) { return code << 8; }
constexpr int Signalled(int signal) { return signal; }

// A policy with a clock of its own.
class Lives {
 public:
  explicit Lives(RestartOptions options = {}) : policy_(options) {}

  // Ends a process with `wait_status` after `life`; then the wait that the
  // policy asks for passes.
  RestartPolicy::Decision End(int wait_status, absl::Duration life) {
    const MonotonicTime started_at = now_;
    now_ = now_ + life;
    RestartPolicy::Decision decision =
        policy_.OnEnd(wait_status, started_at, now_);
    now_ = now_ + decision.start_after.value_or(absl::ZeroDuration());
    return decision;
  }
  absl::Duration FailToStart() { return policy_.OnFailedStart(); }

  // Returns the wait after each of `count` ends, in milliseconds; -1: for ever.
  std::vector<int64_t> Delays(int count, int wait_status, absl::Duration life) {
    std::vector<int64_t> delays;
    for (int i = 0; i < count; ++i) {
      const auto delay = End(wait_status, life).start_after;
      delays.push_back(delay ? absl::ToInt64Milliseconds(*delay) : -1);
    }
    return delays;
  }

 private:
  RestartPolicy policy_;
  MonotonicTime now_;
};

constexpr absl::Duration kShort = absl::Milliseconds(100);

TEST(RestartPolicyTest, StartsAgainWhatMaySucceed) {
  for (const int status :
       {Signalled(SIGKILL), Signalled(SIGHUP), Exited(138), Exited(1),
        Exited(126), Exited(77), Signalled(SIGSEGV), Signalled(SIGABRT),
        Signalled(SIGBUS)}) {
    const auto decision = Lives().End(status, kShort);
    EXPECT_EQ(decision.start_after, absl::ZeroDuration()) << status;
    EXPECT_EQ(decision.text, "starts again");
  }
}

TEST(RestartPolicyTest, EndsWithWhatIsPermanentOrWanted) {
  for (const int status :
       {Exited(0), Exited(143), Signalled(SIGTERM), Signalled(SIGINT)}) {
    const auto decision = Lives().End(status, kShort);
    EXPECT_FALSE(decision.start_after.has_value()) << status;
    EXPECT_THAT(decision.text, HasSubstr("asked to end"));
  }
  for (const int code : {2, 3, 4, 5}) {
    const auto decision = Lives().End(Exited(code), absl::Hours(5));
    EXPECT_FALSE(decision.start_after.has_value()) << code;
    EXPECT_THAT(decision.text, HasSubstr("what to correct"));
  }
}

TEST(RestartPolicyTest, WaitsTwiceAsLongEachTimeUpToABound) {
  Lives lives;
  EXPECT_THAT(lives.Delays(11, Signalled(SIGKILL), kShort),
              ElementsAre(0, 200, 400, 800, 1600, 3200, 6400, 12800, 25600,
                          30000, 30000));
}

TEST(RestartPolicyTest, EndsFromOutsideNeverMakeItGiveUp) {
  Lives lives;
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(lives.End(Exited(138), kShort).start_after.has_value());
  }
}

TEST(RestartPolicyTest, ALongLifeBeginsAnew) {
  Lives lives;
  EXPECT_THAT(lives.Delays(3, Signalled(SIGKILL), kShort),
              ElementsAre(0, 200, 400));
  EXPECT_THAT(lives.Delays(1, Signalled(SIGKILL), absl::Seconds(59)),
              ElementsAre(800));
  EXPECT_THAT(lives.Delays(2, Signalled(SIGKILL), absl::Minutes(1)),
              ElementsAre(0, 0));
}

TEST(RestartPolicyTest, SaysHowLongItWaits) {
  Lives lives;
  (void)lives.End(Exited(138), kShort);
  EXPECT_EQ(lives.End(Exited(138), kShort).text, "starts again in 200ms");
}

TEST(RestartPolicyTest, GivesUpAfterTooManyCrashes) {
  Lives lives;
  EXPECT_THAT(lives.Delays(5, Signalled(SIGSEGV), kShort),
              ElementsAre(0, 200, 400, 800, 1600));
  const auto decision = lives.End(Exited(1), kShort);
  EXPECT_FALSE(decision.start_after.has_value());
  EXPECT_EQ(
      decision.text,
      "crashed 6 times within 10m, more than --max_crashes=5; not started "
      "again: its log says where it fails");
}

TEST(RestartPolicyTest, CrashesCountHoweverLongTheLives) {
  Lives lives;
  EXPECT_THAT(lives.Delays(6, Signalled(SIGSEGV), absl::Seconds(90)),
              ElementsAre(0, 0, 0, 0, 0, -1));
}

TEST(RestartPolicyTest, CrashesFarApartAreNoLoop) {
  Lives lives;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(
        lives.End(Signalled(SIGSEGV), absl::Minutes(3)).start_after.has_value())
        << i;
  }
}

TEST(RestartPolicyTest, EndsFromOutsideBetweenCrashesAreNotCounted) {
  Lives lives({.max_crashes = 2});
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(lives.End(Exited(1), kShort).start_after.has_value());
    EXPECT_TRUE(lives.End(Signalled(SIGKILL), kShort).start_after.has_value());
  }
  EXPECT_FALSE(lives.End(Exited(1), kShort).start_after.has_value());
}

TEST(RestartPolicyTest, CanBeToldToTolerateNoCrash) {
  Lives lives({.max_crashes = 0});
  EXPECT_FALSE(lives.End(Exited(1), kShort).start_after.has_value());
}

TEST(RestartPolicyTest, AFailedStartIsTriedAgainLater) {
  Lives lives;
  (void)lives.End(Signalled(SIGKILL), kShort);
  EXPECT_EQ(lives.FailToStart(), absl::Milliseconds(200));
  EXPECT_EQ(lives.FailToStart(), absl::Milliseconds(400));
}

}  // namespace
}  // namespace ringmaster
