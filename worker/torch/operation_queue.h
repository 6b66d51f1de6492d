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

  // Must not throw, nor wait for an operation.
  using Operation = std::function<void()>;
  // Identifies an operation: its number, from 1.
  using Ticket = int64_t;

  // `clock` outlives the queue.
  explicit OperationQueue(Clock& clock);
  ~OperationQueue() { Stop(); }
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  // `then` is called after the operation on the same thread, while the next may
  // run already: it may wait for others, add some, and end the queue.
  Ticket Add(Operation operation, Operation then, bool is_small);

  // Returns true once `ticket` has run, false if `deadline` comes before. With a
  // deadline it leaves the operation to the queue's thread, unless it is that.
  bool Wait(Ticket ticket, MonotonicTime deadline);
  // The same for all that have been added; false at once on the queue's thread.
  bool WaitForAll(MonotonicTime deadline);

  // Runs what is queued, and ends the thread; no operation runs afterwards, but
  // what is added later and waited for without a deadline. Idempotent; not from
  // an operation.
  void Stop();

 private:
  struct Entry {
    Operation operation;
    Operation then;
    bool is_small = false;
  };

  // What the thread uses; it may outlive the queue, if that ends on it.
  struct State {
    explicit State(Clock& its_clock) : clock(its_clock) {}

    void ThreadMain();
    // Runs the first one, and its `then`. Requires that there is one and that
    // none runs.
    void RunFirst() REQUIRES(mutex);

    Clock& clock;
    Mutex mutex;
    CondVar added;  // for the thread
    CondVar ran;
    std::deque<Entry> queue GUARDED_BY(mutex);
    Ticket last_added GUARDED_BY(mutex) = 0;
    Ticket last_run GUARDED_BY(mutex) = 0;
    bool is_running GUARDED_BY(mutex) = false;
    bool is_thread_asleep GUARDED_BY(mutex) = false;  // until it is notified
    bool is_stopping GUARDED_BY(mutex) = false;
    std::thread::id thread GUARDED_BY(mutex);
  };

  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TORCH_OPERATION_QUEUE_H_
