#include "common/sync/mutex.h"

namespace ringmaster {

bool CondVar::WaitUntil(Mutex& mutex, Clock& clock, MonotonicTime deadline) {
  // The caller holds the lock and keeps it: adopt it for the wait and give it
  // back unlocked-by-us.
  std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
  const bool in_time = clock.WaitOn(cv_, lock, deadline);
  lock.release();
  return in_time;
}

void CondVar::Wait(Mutex& mutex) {
  std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
  cv_.wait(lock);
  lock.release();
}

}  // namespace ringmaster
