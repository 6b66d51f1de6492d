// HostMailbox runs what other threads ask for on the thread that serves a
// host's shards, which alone may touch them.
//
// Thread-safety: Call and Wake from any thread; the others on the serving
// thread.
#ifndef RINGMASTER_WORKER_PARAMETER_SERVER_HOST_MAILBOX_H_
#define RINGMASTER_WORKER_PARAMETER_SERVER_HOST_MAILBOX_H_

#include <atomic>
#include <functional>
#include <list>
#include <optional>

#include "absl/status/status.h"
#include "common/clock/clock.h"
#include "common/sync/mutex.h"

namespace ringmaster {

class HostMailbox {
 public:
  // Does what it can; nullopt: it has to be called again after the next poll.
  using Task = std::function<std::optional<absl::Status>()>;

  explicit HostMailbox(Clock& clock) : clock_(clock) {}

  // Lets the serving thread run `task` until it is done, and returns what it
  // says. It is not called any more once this has returned.
  //   UNAVAILABLE        nobody serves, or ceased to before the task was done
  //   DEADLINE_EXCEEDED  it was not done by then
  [[nodiscard]] absl::Status Call(Task task, MonotonicTime deadline)
      EXCLUDES(mutex_);

  // Tasks are taken from now on, until Close; `wake` makes the serving thread
  // call RunAll soon. It is called under a lock, so that nobody wakes who has
  // closed; it must not block.
  void Open(std::function<void()> wake) EXCLUDES(mutex_);
  void Close() EXCLUDES(mutex_);

  // As a task would wake it. Any thread.
  void Wake() EXCLUDES(mutex_);

  // Calls what is there, each once. Takes no lock where there is nothing.
  void RunAll() EXCLUDES(mutex_);

 private:
  struct Pending {
    Task task;
    std::optional<absl::Status> result = std::nullopt;
    bool is_running = false;
  };

  // Returns true if it is still there, and marks it as running.
  [[nodiscard]] bool TryBegin(Pending* pending) EXCLUDES(mutex_);
  void Remove(Pending* pending) REQUIRES(mutex_);

  Clock& clock_;
  std::atomic<bool> has_pending_{false};  // changes under the lock
  Mutex mutex_;
  CondVar changed_;
  std::function<void()> wake_ GUARDED_BY(mutex_);  // empty: closed
  std::list<Pending*> pending_ GUARDED_BY(mutex_);
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PARAMETER_SERVER_HOST_MAILBOX_H_
