// SerialExecutor: one thread that runs tasks one after another, and therefore
// owns any state that only those tasks touch.
//
// Two queues: Post is for tasks that may be refused under load (requests of
// users), PostUrgent for those that may not (beats, halts, completions); each
// queue is FIFO. Urgent tasks go first, but after 64 of them in a row a due
// wake-up or one ordinary task gets its turn, so that no queue starves. A due
// wake-up runs after the urgent tasks already queued: a beat that has arrived
// counts before the lease that it renews is judged.
//
// Not guaranteed: order between the queues.
// Thread-safety: thread-safe; tasks may post. Do not call Stop from a task.
// Ownership: tasks run, and are destroyed, without any lock held.
//
// Example:
//   SerialExecutor executor(clock, {.name = "coordinator"});
//   executor.PostUrgent([&core, beat] { core.OnBeat(beat); });
//   ...
//   executor.Stop();
#ifndef RINGMASTER_COMMON_EXECUTOR_SERIAL_EXECUTOR_H_
#define RINGMASTER_COMMON_EXECUTOR_SERIAL_EXECUTOR_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "common/clock/clock.h"
#include "common/sync/mutex.h"

namespace ringmaster {

struct SerialExecutorOptions {
  // The thread's name, as shown by ps and gdb; cut to 15 characters.
  std::string name = "executor";
  // Post refuses once this many ordinary tasks wait.
  size_t max_queued = 4096;
};

class SerialExecutor {
 public:
  using Task = absl::AnyInvocable<void()>;

  // Starts the thread. `clock` must outlive this.
  explicit SerialExecutor(Clock& clock, SerialExecutorOptions options = {});
  // Calls Stop.
  ~SerialExecutor();
  SerialExecutor(const SerialExecutor&) = delete;
  SerialExecutor& operator=(const SerialExecutor&) = delete;

  // Queues `task`, without blocking.
  //   RESOURCE_EXHAUSTED  max_queued tasks wait; retry with backoff
  //   UNAVAILABLE         Stop was called (reason SHUTTING_DOWN)
  [[nodiscard]] absl::Status Post(Task task) EXCLUDES(mutex_);

  // Queues `task`; only after Stop does it refuse, dropping the task unrun.
  // Returns true if it was queued.
  bool PostUrgent(Task task) EXCLUDES(mutex_);

  // Runs `task` once, when the clock reaches `when`. There is only one wake-up:
  // a new one replaces one that has not run yet.
  void SetWakeup(MonotonicTime when, Task task) EXCLUDES(mutex_);
  void ClearWakeup() EXCLUDES(mutex_);

  // Returns true if a task that is queued now runs within `patience` of real
  // time: for watchdogs. Blocks for up to that long; do not call it from a
  // task. Runs `task` then, if need be later.
  [[nodiscard]] bool Answers(
      absl::Duration patience, Task task = [] {}) EXCLUDES(mutex_);

  // Returns true inside a task: for assertions in code that the thread owns.
  [[nodiscard]] bool RunsTasksInThisThread() const;

  // Ordinary and urgent tasks that wait.
  [[nodiscard]] size_t queued_count() const EXCLUDES(mutex_);

  // Refuses new tasks, runs those already queued, drops the wake-up and joins
  // the thread. Calling it again does nothing. Blocks for as long as the tasks
  // take.
  void Stop() EXCLUDES(mutex_);

 private:
  struct Wakeup {
    MonotonicTime when;
    Task task;
  };

  void Run();
  // Waits for the next task to run; nullopt once stopped and drained.
  std::optional<Task> TakeNext() EXCLUDES(mutex_);
  // The next task that is ready now.
  std::optional<Task> TakeReady() REQUIRES(mutex_);
  static Task TakeFront(std::deque<Task>& queue);

  Clock& clock_;
  const SerialExecutorOptions options_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Task> urgent_ GUARDED_BY(mutex_);
  std::deque<Task> ordinary_ GUARDED_BY(mutex_);
  std::optional<Wakeup> wakeup_ GUARDED_BY(mutex_);
  bool is_stopping_ GUARDED_BY(mutex_) = false;

  // Only the thread uses these two.
  int urgent_in_a_row_ = 0;
  bool wakeup_ran_last_ = false;

  Mutex join_mutex_ ACQUIRED_BEFORE(mutex_);
  std::thread thread_ GUARDED_BY(join_mutex_);
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_EXECUTOR_SERIAL_EXECUTOR_H_
