#include "worker/supervisor/signal_pipe.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "common/clock/clock.h"
#include "common/sync/mutex.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(10);

TEST(SignalPipeTest, GivesSignalsInTheirOrder) {
  SignalPipe pipe({SIGTERM, SIGINT});
  kill(getpid(), SIGTERM);
  EXPECT_EQ(pipe.Next(kPatience), SIGTERM);
  kill(getpid(), SIGINT);
  EXPECT_EQ(pipe.Next(kPatience), SIGINT);
}

TEST(SignalPipeTest, GivesNothingAfterItsLimit) {
  SignalPipe pipe({SIGTERM});
  EXPECT_EQ(pipe.Next(absl::ZeroDuration()), std::nullopt);
  EXPECT_EQ(pipe.Next(-absl::Seconds(1)), std::nullopt);
  EXPECT_EQ(pipe.Next(absl::Milliseconds(1)), std::nullopt);
}

TEST(SignalPipeTest, TakesSignalsThatAnyThreadGets) {
  SignalPipe pipe({SIGTERM});
  std::thread other([&pipe] {
    pthread_kill(pthread_self(), SIGTERM);
    EXPECT_EQ(pipe.Next(kPatience), SIGTERM);
  });
  other.join();
}

TEST(SignalPipeTest, CanBeMadeAnew) {
  { SignalPipe pipe({SIGTERM}); }
  SignalPipe pipe({SIGTERM});
  kill(getpid(), SIGTERM);
  EXPECT_EQ(pipe.Next(kPatience), SIGTERM);
}

TEST(SignalListenerTest, CallsBackForASignal) {
  Mutex mutex;
  CondVar changed;
  int signal = 0;
  SignalPipe pipe({SIGTERM});
  SignalListener listener(pipe, [&](int s) {
    MutexLock lock(mutex);
    signal = s;
    changed.NotifyAll();
  });
  kill(getpid(), SIGTERM);
  const MonotonicTime deadline = Clock::Real().Now() + kPatience;
  MutexLock lock(mutex);
  while (signal == 0) {
    ASSERT_TRUE(changed.WaitUntil(mutex, Clock::Real(), deadline));
  }
  EXPECT_EQ(signal, SIGTERM);
}

TEST(SignalListenerTest, EndsWithoutASignal) {
  SignalPipe pipe({SIGTERM});
  SignalListener listener(pipe, [](int) {});
}

TEST(SignalNameTest, NamesTheStopSignals) {
  EXPECT_EQ(SignalName(SIGTERM), "SIGTERM");
  EXPECT_EQ(SignalName(SIGINT), "SIGINT");
  EXPECT_EQ(SignalName(SIGHUP), "signal 1");
}

}  // namespace
}  // namespace ringmaster
