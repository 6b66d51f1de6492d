// TrainerThread: the one thread on which a worker's trainer prepares and runs.
//
// Jobs are done in the order in which they were given. Each Prepare and each
// Run is answered through the callback, on this thread.
// Thread-safe.
// Ownership: the trainer must outlive this; so must the trainer's calls: the
// destructor waits for the one under way (abort it first).
#ifndef RINGMASTER_WORKER_AGENT_TRAINER_THREAD_H_
#define RINGMASTER_WORKER_AGENT_TRAINER_THREAD_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <variant>
#include <vector>

#include "common/clock/clock.h"
#include "common/sync/mutex.h"
#include "worker/agent/core/agent_event.h"
#include "worker/member/job_runner.h"

namespace ringmaster {

class TrainerThread {
 public:
  using EventCallback = std::function<void(agent::Event)>;

  TrainerThread(JobRunner& trainer, EventCallback on_event);
  ~TrainerThread();
  TrainerThread(const TrainerThread&) = delete;
  TrainerThread& operator=(const TrainerThread&) = delete;

  // Answered by TrainerPrepared or TrainerPrepareFailed.
  void Prepare(std::shared_ptr<const agent::AssignmentPayload> payload);
  // Answered by TrainerEnded.
  void Run(int64_t generation);
  void Release();

  // Takes no more jobs, drops those not begun, and waits until the one under
  // way is over, at most until `deadline`. Returns true if it is over.
  [[nodiscard]] bool StopUntil(Clock& clock, MonotonicTime deadline);

 private:
  struct PrepareJob {
    std::shared_ptr<const agent::AssignmentPayload> payload;
  };
  struct RunJob {
    int64_t generation = 0;
  };
  struct ReleaseJob {};
  using Job = std::variant<PrepareJob, RunJob, ReleaseJob>;

  void Add(Job job);
  void Loop();
  void Do(const PrepareJob& job);
  void Do(const RunJob& job);
  void Do(const ReleaseJob& job);

  JobRunner& trainer_;
  const EventCallback on_event_;

  Mutex mutex_;
  CondVar changed_;
  std::deque<Job> jobs_ GUARDED_BY(mutex_);
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  bool is_over_ GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_AGENT_TRAINER_THREAD_H_
