#include "common/sync/periodic_thread.h"

#include <algorithm>
#include <utility>

namespace ringmaster {

PeriodicThread::PeriodicThread(Clock& clock, absl::Duration period,
                               std::function<void()> task)
    : clock_(clock),
      period_(period),
      task_(std::move(task)),
      thread_([this] { Run(); }) {}

PeriodicThread::~PeriodicThread() {
  {
    MutexLock lock(mutex_);
    is_stopped_ = true;
    stopped_.NotifyAll();
  }
  thread_.join();
}

void PeriodicThread::Run() {
  MonotonicTime next = clock_.Now();
  while (true) {
    task_();
    // Periods that a slow call has missed are not made up for.
    next = std::max(next + period_, clock_.Now());
    MutexLock lock(mutex_);
    while (!is_stopped_ && stopped_.WaitUntil(mutex_, clock_, next)) {
    }
    if (is_stopped_) return;
  }
}

}  // namespace ringmaster
