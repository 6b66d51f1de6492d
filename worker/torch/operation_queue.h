// OperationQueue runs the operations of one process group in the order in which
// they were added, one at a time.
//
// It has a thread, and whoever waits for an operation runs what is left before
// it, and it, himself if the thread does not: a small operation that is waited
// for at once costs no thread switch. Large ones begin on the thread at once, so
// that they overlap what the caller computes; small ones within
// kMaxSmallDelay.
// Thread-safe.
#ifndef RINGMASTER_WORKER_TORCH_OPERATION_QUEUE_H_
#define RINGMASTER_WORKER_TORCH_OPERATION_QUEUE_H_

#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/sync/mutex.h"

namespace ringmaster {

class OperationQueue {
 public:
  static constexpr absl::Duration kMaxSmallDelay = absl::Microseconds(200);

  // What is to be done. Must not throw, nor wait for an operation.
  using Operation = std::function<void()>;
  // Identifies an operation: its number, from 1.
  using Ticket = int64_t;

  // `clock` outlives the queue.
  explicit OperationQueue(Clock& clock);
  ~OperationQueue();
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  // `then` is called after the operation on the same thread, while the next may
  // run already: it may wait for others, and add some.
  Ticket Add(Operation operation, Operation then, bool is_small);

  // Returns true once `ticket` has run, false if `deadline` comes before. An
  // operation that the caller has begun itself is finished in any case.
  bool Wait(Ticket ticket, MonotonicTime deadline);

  // Runs what is queued, and ends the thread. What is added later runs when it is
  // waited for. Idempotent; not from an operation or its `then`.
  void Stop();

 private:
  struct Entry {
    Operation operation;
    Operation then;
    bool is_small = false;
  };

  void ThreadMain();
  // Runs the first one, and its `then`. Requires that there is one and that none
  // runs.
  void RunFirst() REQUIRES(mutex_);

  Clock& clock_;
  Mutex mutex_;
  CondVar added_;  // for the thread
  CondVar ran_;
  std::deque<Entry> queue_ GUARDED_BY(mutex_);
  Ticket last_added_ GUARDED_BY(mutex_) = 0;
  Ticket last_run_ GUARDED_BY(mutex_) = 0;
  bool is_running_ GUARDED_BY(mutex_) = false;
  bool is_thread_asleep_ GUARDED_BY(mutex_) = false;  // until it is notified
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: uses everything above
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TORCH_OPERATION_QUEUE_H_
