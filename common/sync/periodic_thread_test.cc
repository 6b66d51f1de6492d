#include "common/sync/periodic_thread.h"

#include <atomic>
#include <future>
#include <optional>

#include "absl/time/time.h"
#include "common/clock/testing/fake_clock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

constexpr absl::Duration kPeriod = absl::Seconds(10);

TEST(PeriodicThreadTest, CallsAtOnceAndThenEveryPeriodUntilItIsDestroyed) {
  FakeClock clock;
  std::atomic<int> calls = 0;
  std::optional<PeriodicThread> thread(std::in_place, clock, kPeriod,
                                       [&] { ++calls; });
  for (int i = 1; i <= 3; ++i) {
    clock.AwaitWaiters(1);
    EXPECT_EQ(calls, i);
    clock.Advance(kPeriod);
  }
  clock.AwaitWaiters(1);
  thread.reset();  // It does not wait for the next period.
  EXPECT_EQ(calls, 4);
}

TEST(PeriodicThreadTest, PeriodsThatACallMissedAreNotMadeUpFor) {
  FakeClock clock;
  std::atomic<int> calls = 0;
  std::promise<void> began;
  std::promise<void> may_return;
  const PeriodicThread thread(clock, kPeriod, [&] {
    if (++calls > 1) return;
    began.set_value();
    may_return.get_future().wait();
  });
  began.get_future().wait();
  clock.Advance(5 * kPeriod);
  may_return.set_value();
  clock.AwaitWaitFor(clock.Now() + kPeriod);
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace ringmaster
