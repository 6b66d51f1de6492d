#include "common/clock/clock.h"

#include <memory>
#include <thread>

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "common/clock/testing/fake_clock.h"
#include "common/sync/mutex.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(RealClockTest, NeverGoesBack) {
  MonotonicTime last = Clock::Real().Now();
  for (int i = 0; i < 1'000; ++i) {
    const MonotonicTime now = Clock::Real().Now();
    ASSERT_LE(last, now);
    last = now;
  }
}

TEST(FakeClockTest, MovesOnlyByAdvance) {
  FakeClock clock;
  const MonotonicTime start = clock.Now();
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(absl::Milliseconds(5));
  EXPECT_EQ(clock.Now() - start, absl::Milliseconds(5));
}

// A thread that waits until `deadline` or until it is told to stop.
class WaitingThread {
 public:
  WaitingThread(Clock& clock, MonotonicTime deadline)
      : thread_([this, &clock, deadline] {
          MutexLock lock(mutex_);
          while (!is_told_ && !is_late_) {
            is_late_ = !changed_.WaitUntil(mutex_, clock, deadline);
          }
        }) {}
  ~WaitingThread() { Join(); }

  void Tell() {
    {
      MutexLock lock(mutex_);
      is_told_ = true;
    }
    changed_.NotifyAll();
  }
  // True iff the thread ended by its deadline.
  bool Join() {
    if (thread_.joinable()) thread_.join();
    MutexLock lock(mutex_);
    return is_late_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool is_told_ GUARDED_BY(mutex_) = false;
  bool is_late_ GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Last: it uses the fields above.
};

TEST(FakeClockTest, AdvanceEndsTheWaitsThatAreDue) {
  FakeClock clock;
  WaitingThread soon(clock, clock.Now() + absl::Seconds(1));
  WaitingThread later(clock, clock.Now() + absl::Seconds(2));
  clock.AwaitWaiters(2);
  clock.Advance(absl::Seconds(1));
  EXPECT_TRUE(soon.Join());
  clock.AwaitWaiters(1);
  clock.Advance(absl::Seconds(1));
  EXPECT_TRUE(later.Join());
}

TEST(FakeClockTest, ANotificationEndsAWaitBeforeItsDeadline) {
  FakeClock clock;
  const MonotonicTime deadline = clock.Now() + absl::Seconds(1);
  WaitingThread waiting(clock, deadline);
  clock.AwaitWaitFor(deadline);
  waiting.Tell();
  EXPECT_FALSE(waiting.Join());
}

TEST(FakeClockTest, AwaitWaitersIgnoresWaitsThatAreOver) {
  FakeClock clock;
  // The first wait may still be returning when AwaitWaiters is called; only a
  // wait that is not due yet counts.
  for (int i = 0; i < 200; ++i) {
    WaitingThread first(clock, clock.Now() + absl::Seconds(1));
    clock.AwaitWaiters(1);
    clock.Advance(absl::Seconds(1));
    WaitingThread second(clock, clock.Now() + absl::Seconds(1));
    clock.AwaitWaiters(1);
    clock.Advance(absl::Seconds(1));
    ASSERT_TRUE(first.Join());
    ASSERT_TRUE(second.Join());
  }
}

TEST(FakeClockTest, AWaitMayDestroyItsMutexWhileTheClockAdvances) {
  FakeClock clock;
  for (int i = 0; i < 500; ++i) {
    auto waiting =
        std::make_unique<WaitingThread>(clock, clock.Now() + absl::Seconds(1));
    clock.AwaitWaiters(1);
    std::thread advancing([&] { clock.Advance(absl::Seconds(1)); });
    waiting->Tell();
    waiting.reset();  // Joins, then frees the mutex that Advance may hold.
    advancing.join();
  }
}

}  // namespace
}  // namespace ringmaster
