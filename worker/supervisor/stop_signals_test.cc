#include "worker/supervisor/stop_signals.h"

#include <unistd.h>

#include <vector>

#include "common/clock/clock.h"
#include "common/sync/mutex.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(StopSignalsTest, AreGivenToTheListener) {
  BlockStopSignals();
  Mutex mutex;
  CondVar changed;
  std::vector<int> signals;
  StopSignalListener listener([&](int signal) {
    MutexLock lock(mutex);
    signals.push_back(signal);
    changed.NotifyAll();
  });
  const MonotonicTime deadline = Clock::Real().Now() + absl::Seconds(10);
  for (const int signal : {SIGTERM, SIGINT}) {
    kill(getpid(), signal);
    MutexLock lock(mutex);
    while (signals.empty()) {
      ASSERT_TRUE(changed.WaitUntil(mutex, Clock::Real(), deadline));
    }
    EXPECT_EQ(signals, std::vector<int>{signal});
    signals.clear();
  }
}

TEST(StopSignalsTest, AListenerEndsWithoutASignal) {
  BlockStopSignals();
  StopSignalListener listener([](int) {});
}

TEST(StopSignalsTest, HaveNames) {
  EXPECT_EQ(SignalName(SIGTERM), "SIGTERM");
  EXPECT_EQ(SignalName(SIGINT), "SIGINT");
  EXPECT_EQ(SignalName(SIGHUP), "signal 1");
}

}  // namespace
}  // namespace ringmaster
