// PeriodicThread calls a function at once and then every `period`, on a thread
// of its own, until it is destroyed.
//
// Calls never overlap: one that takes longer than a period delays the next.
// Thread-safety: `task` runs on the thread; the destructor waits for the call
// under way, so `task` must not block for long, nor destroy this.
// Ownership: the clock and what `task` uses outlive this.
// Example:
//   const PeriodicThread sweeper(Clock::Real(), absl::Seconds(1),
//                                [&] { connections.Sweep(); });
#ifndef RINGMASTER_COMMON_SYNC_PERIODIC_THREAD_H_
#define RINGMASTER_COMMON_SYNC_PERIODIC_THREAD_H_

#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/sync/mutex.h"

namespace ringmaster {

class PeriodicThread {
 public:
  PeriodicThread(Clock& clock, absl::Duration period,
                 std::function<void()> task);
  ~PeriodicThread();
  PeriodicThread(const PeriodicThread&) = delete;
  PeriodicThread& operator=(const PeriodicThread&) = delete;

 private:
  void Run();

  Clock& clock_;
  const absl::Duration period_;
  const std::function<void()> task_;
  Mutex mutex_;
  CondVar stopped_;
  bool is_stopped_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_SYNC_PERIODIC_THREAD_H_
