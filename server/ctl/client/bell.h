// Bell lets several threads wake the one that draws.
//
// A ring is never lost: it is kept until the next Await, and several rings
// count as one. Thread-safe; one thread awaits.
#ifndef RINGMASTER_SERVER_CTL_CLIENT_BELL_H_
#define RINGMASTER_SERVER_CTL_CLIENT_BELL_H_

#include <utility>

#include "common/clock/clock.h"
#include "common/sync/mutex.h"

namespace ringmaster::ctl {

class Bell {
 public:
  void Ring() {
    MutexLock lock(mutex_);
    is_rung_ = true;
    changed_.NotifyAll();
  }

  // Waits for a ring since the last Await; false if `deadline` came first.
  bool Await(Clock& clock, MonotonicTime deadline) {
    MutexLock lock(mutex_);
    while (!is_rung_) {
      if (!changed_.WaitUntil(mutex_, clock, deadline)) break;
    }
    return std::exchange(is_rung_, false);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool is_rung_ GUARDED_BY(mutex_) = false;
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_CLIENT_BELL_H_
