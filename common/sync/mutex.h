// Mutex, MutexLock and CondVar: std's, with clang's thread-safety annotations,
// waiting through a Clock.
//
// Why not absl::Mutex: Debian's Abseil is not instrumented, so TSan would
// report every correct use of it as a race. Fields say GUARDED_BY(mutex_);
// `bazel build --config=clang` turns a violation into an error
// (https://clang.llvm.org/docs/ThreadSafetyAnalysis.html).
//
// Example:
//   Mutex mutex_;
//   CondVar changed_;
//   bool is_done_ GUARDED_BY(mutex_) = false;
//   ...
//   MutexLock lock(mutex_);
//   while (!is_done_) {
//     if (!changed_.WaitUntil(mutex_, clock, deadline)) return
//     absl::DeadlineExceededError("...");
//   }
#ifndef RINGMASTER_COMMON_SYNC_MUTEX_H_
#define RINGMASTER_COMMON_SYNC_MUTEX_H_

#include <condition_variable>
#include <mutex>

#include "common/clock/clock.h"
#include "common/sync/thread_annotations.h"

namespace ringmaster {

class CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ACQUIRE() { mutex_.lock(); }
  void Unlock() RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() RELEASE() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  // Waits until notified or until `deadline` on `clock`. Returns false iff the
  // deadline has passed; like every condition variable it may wake up without
  // cause, so callers loop over their condition.
  bool WaitUntil(Mutex& mutex, Clock& clock, MonotonicTime deadline)
      REQUIRES(mutex);

  // Waits until notified. For owners of a thread that another thread's Stop
  // wakes; everything else has a deadline.
  void Wait(Mutex& mutex) REQUIRES(mutex);

  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_SYNC_MUTEX_H_
