#include "common/sync/mutex.h"

#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/clock/testing/fake_clock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(MutexTest, ExcludesOtherThreads) {
  Mutex mutex;
  int count = 0;  // Guarded by `mutex`; TSan would see a missing lock.
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 1'000; ++k) {
        MutexLock lock(mutex);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 4'000);
}

TEST(CondVarTest, WaitUntilReturnsFalseOnceTheFakeClockPassesTheDeadline) {
  FakeClock clock;
  const MonotonicTime deadline = clock.Now() + absl::Seconds(30);
  Mutex mutex;
  CondVar changed;
  std::thread waiter([&] {
    MutexLock lock(mutex);
    while (changed.WaitUntil(mutex, clock, deadline)) {
    }
  });
  clock.AwaitWaitFor(deadline);
  clock.Advance(absl::Seconds(29));
  clock.AwaitWaitFor(deadline);
  clock.Advance(absl::Seconds(1));
  waiter.join();
  EXPECT_EQ(clock.Now(), deadline);
}

TEST(CondVarTest, WaitUntilDoesNotWaitForADeadlineInThePast) {
  FakeClock clock;
  Mutex mutex;
  CondVar changed;
  MutexLock lock(mutex);
  EXPECT_FALSE(changed.WaitUntil(mutex, clock, clock.Now()));
  EXPECT_FALSE(changed.WaitUntil(mutex, Clock::Real(), Clock::Real().Now()));
}

TEST(CondVarTest, WaitUntilOnTheRealClockEndsAtItsDeadline) {
  Mutex mutex;
  CondVar changed;
  const MonotonicTime deadline = Clock::Real().Now() + absl::Milliseconds(2);
  MutexLock lock(mutex);
  while (changed.WaitUntil(mutex, Clock::Real(), deadline)) {
  }
  EXPECT_GE(Clock::Real().Now(), deadline);
}

// Hands the turn to and fro `rounds` times between two threads.
void PassTheTurn(Clock& clock, MonotonicTime deadline, int rounds) {
  Mutex mutex;
  CondVar changed;
  int turn = 0;  // Guarded by `mutex`.
  const auto play = [&](int parity) {
    for (int i = 0; i < rounds; ++i) {
      MutexLock lock(mutex);
      while (turn % 2 != parity) {
        if (deadline == MonotonicTime::InfiniteFuture()) {
          changed.Wait(mutex);
        } else {
          ASSERT_TRUE(changed.WaitUntil(mutex, clock, deadline));
        }
      }
      ++turn;
      changed.NotifyOne();
    }
  };
  std::thread odd(play, 1);
  play(0);
  odd.join();
  MutexLock lock(mutex);
  EXPECT_EQ(turn, 2 * rounds);
}

TEST(CondVarTest, ANotificationWakesTheWaiter) {
  FakeClock fake;
  PassTheTurn(fake, fake.Now() + absl::Seconds(1), 500);
  PassTheTurn(Clock::Real(), Clock::Real().Now() + absl::Seconds(50), 500);
  PassTheTurn(Clock::Real(), MonotonicTime::InfiniteFuture(), 500);
}

}  // namespace
}  // namespace ringmaster
