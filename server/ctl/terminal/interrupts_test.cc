#include "server/ctl/terminal/interrupts.h"

#include <signal.h>
#include <unistd.h>

#include <vector>

#include "common/clock/clock.h"
#include "common/sync/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

TEST(InterruptsTest, TurnsSignalsIntoCalls) {
  Interrupts::Block();
  Mutex mutex;
  CondVar changed;
  std::vector<int> seen;
  Interrupts interrupts([&](int signal) {
    MutexLock lock(mutex);
    seen.push_back(signal);
    changed.NotifyAll();
  });
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    ::kill(::getpid(), signal);
    MutexLock lock(mutex);
    while (seen.empty()) changed.Wait(mutex);
    EXPECT_THAT(seen, ::testing::ElementsAre(signal));
    seen.clear();
  }
}

TEST(InterruptsTest, EndsWithoutASignal) {
  Interrupts::Block();
  Interrupts interrupts([](int) {});
}

}  // namespace
}  // namespace ringmaster::ctl
