// FakeClock: a Clock that moves only when a test says so.
//
// A thread that waits through it sleeps until its condition is notified or
// Advance passes its deadline, so tests of timeouts take no time.
// Thread-safe. Must outlive every wait on it.
//
// Example:
//   FakeClock clock;
//   std::thread waiter([&] { result = box.Take(clock, clock.Now() + kLimit);
//   }); clock.AwaitWaiters(1);   // now it waits clock.Advance(kLimit);   //
//   and gives up waiter.join();
#ifndef RINGMASTER_COMMON_CLOCK_TESTING_FAKE_CLOCK_H_
#define RINGMASTER_COMMON_CLOCK_TESTING_FAKE_CLOCK_H_

#include <condition_variable>
#include <list>
#include <mutex>

#include "common/clock/clock.h"

namespace ringmaster {

class FakeClock final : public Clock {
 public:
  explicit FakeClock(
      MonotonicTime start = MonotonicTime::FromNanos(1'000'000'000))
      : now_(start) {}
  FakeClock(const FakeClock&) = delete;
  FakeClock& operator=(const FakeClock&) = delete;

  MonotonicTime Now() const override;
  bool WaitOn(std::condition_variable& cv, std::unique_lock<std::mutex>& lock,
              MonotonicTime deadline) override;

  // Moves the time on by `duration` (>= 0) in one leap and wakes the waits
  // whose deadline has come. The caller must not hold the mutex of a wait.
  void Advance(absl::Duration duration);

  // Blocks until `count` threads wait for deadlines that have not come yet: a
  // test calls it before Advance, instead of sleeping.
  void AwaitWaiters(int count);

  // Blocks until some thread waits for exactly `deadline`.
  void AwaitWaitFor(MonotonicTime deadline);

 private:
  struct Waiter {
    std::mutex* mutex;
    std::condition_variable* cv;
    MonotonicTime deadline;
    // Calls of Advance about to use `mutex` and `cv`; the wait does not return,
    // and so its owner cannot destroy them, before this is 0 again.
    int users = 0;
  };

  // Held only for the fields below, never while a waiter's mutex is taken.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  MonotonicTime now_;
  std::list<Waiter> waiters_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CLOCK_TESTING_FAKE_CLOCK_H_
