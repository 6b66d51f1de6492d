#include "worker/agent/trainer_thread.h"

#include <pthread.h>

#include <utility>

#include "worker/agent/rpc/assignment_payload.h"
#include "worker/agent/rpc/session_messages.h"

namespace ringmaster {

TrainerThread::TrainerThread(JobRunner& trainer, EventCallback on_event)
    : trainer_(trainer), on_event_(std::move(on_event)), thread_([this] {
        pthread_setname_np(pthread_self(), "trainer");
        Loop();
      }) {}

TrainerThread::~TrainerThread() {
  {
    MutexLock lock(mutex_);
    is_stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void TrainerThread::Prepare(
    std::shared_ptr<const agent::AssignmentPayload> payload) {
  Add(PrepareJob{std::move(payload)});
}

void TrainerThread::Run(int64_t generation) { Add(RunJob{generation}); }

void TrainerThread::Release() { Add(ReleaseJob{}); }

bool TrainerThread::StopUntil(Clock& clock, MonotonicTime deadline) {
  MutexLock lock(mutex_);
  is_stopping_ = true;
  changed_.NotifyAll();
  while (!is_over_) {
    if (!changed_.WaitUntil(mutex_, clock, deadline)) return is_over_;
  }
  return true;
}

void TrainerThread::Add(Job job) {
  MutexLock lock(mutex_);
  jobs_.push_back(std::move(job));
  changed_.NotifyAll();
}

void TrainerThread::Loop() {
  for (;;) {
    Job job;
    {
      MutexLock lock(mutex_);
      while (jobs_.empty() && !is_stopping_) changed_.Wait(mutex_);
      if (is_stopping_) {
        is_over_ = true;
        changed_.NotifyAll();
        return;
      }
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    std::visit([this](const auto& j) { Do(j); }, job);
  }
}

void TrainerThread::Do(const PrepareJob& job) {
  const RankAssignment& assignment = job.payload->assignment;
  const absl::StatusOr<PlanAgreement> agreement =
      trainer_.Prepare(job.payload->spec, assignment);
  const TrainProgress progress = trainer_.progress();
  const agent::StepPosition position{progress.applied_step,
                                     progress.complete_step};
  if (agreement.ok()) {
    on_event_(
        agent::TrainerPrepared{.generation = assignment.generation,
                               .plan_hash = agreement->plan_hash,
                               .data_fingerprint = agreement->data_fingerprint,
                               .summary = agreement->summary,
                               .position = position,
                               .shards = progress.held_shards,
                               .can_go_on = progress.can_go_on,
                               .data = agreement->data});
  } else {
    on_event_(agent::TrainerPrepareFailed{.generation = assignment.generation,
                                          .status = agreement.status(),
                                          .position = position,
                                          .shards = progress.held_shards,
                                          .can_go_on = progress.can_go_on});
  }
}

void TrainerThread::Do(const RunJob& job) {
  const RunOutcome outcome = trainer_.Run();
  const TrainProgress progress = trainer_.progress();
  agent::TrainerEnded ended =
      ToEvent(job.generation, outcome, progress.held_shards);
  ended.saved_step = progress.figures.checkpoint_step();
  ended.can_go_on = progress.can_go_on;
  on_event_(std::move(ended));
}

void TrainerThread::Do(const ReleaseJob&) { trainer_.Release(); }

}  // namespace ringmaster
