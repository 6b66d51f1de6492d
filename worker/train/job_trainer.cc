#include "worker/train/job_trainer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/fail_point/fail_point.h"
#include "common/logging/logging.h"
#include "common/metrics/metrics.h"
#include "common/plan/partition.h"
#include "common/status/check.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "common/sync/mutex.h"
#include "common/transport/cancel_token.h"
#include "common/transport/tcp.h"
#include "worker/collective/connect_ring.h"
#include "worker/data/prefetcher.h"
#include "worker/train/generation_run.h"
#include "worker/train/program_config.h"
#include "worker/train/progress_board.h"
#include "worker/train/train_counters.h"
#include "worker/train/training_state.h"

namespace ringmaster {
namespace {

// Evaluation uses the training buffers; a rank with a tiny part of the batch
// should not evaluate sample by sample.
constexpr int64_t kMinBufferedSamples = 64;

class JobTrainer final : public Trainer {
 public:
  JobTrainer(Clock& clock, const Listener& listener)
      : clock_(clock), listener_(listener) {}

  absl::StatusOr<PlanAgreement> Prepare(
      const v1::TrainProgram& program,
      const RankAssignment& assignment) override;
  RunOutcome Run() override;
  void Abort(int64_t generation, std::string_view why) override;
  void RequestStop() override {
    wishes_.stop.store(true, std::memory_order_relaxed);
  }
  void RequestDrain() override {
    wishes_.drain.store(true, std::memory_order_relaxed);
  }
  void Release() override;
  TrainProgress progress() const override;
  const Trace& trace() const override { return trace_; }

 private:
  // Makes the cancel token of a new generation; an Abort of it may have come
  // before.
  void BeginGeneration(int64_t generation) EXCLUDES(mutex_);
  [[nodiscard]] absl::Status MakeState(const v1::TrainProgram& program);
  [[nodiscard]] absl::Status StartPrefetcher();
  [[nodiscard]] absl::StatusOr<GenerationRun::End> RunGeneration();
  [[nodiscard]] absl::StatusOr<std::shared_ptr<Communicator>> Connect();
  // What this process has done so far, a line a counter, at level debug.
  void LogCounters() const;
  [[nodiscard]] RunOutcome MakeOutcome(
      const absl::StatusOr<GenerationRun::End>& end) const;

  Clock& clock_;
  const Listener& listener_;
  Trace trace_;
  MetricRegistry metrics_;
  TrainCounters counters_{metrics_};
  ProgressBoard board_;
  Wishes wishes_;

  // Only on the training thread.
  RankAssignment assignment_;
  std::unique_ptr<TrainingState> state_;
  std::unique_ptr<Prefetcher> prefetcher_;  // refers to state_
  int64_t prefetcher_capacity_ = 0;
  int blamed_rank_ =
      -1;  // the peer that this generation failed on; -1: unknown

  mutable Mutex mutex_;
  int64_t generation_ GUARDED_BY(mutex_) = 0;
  int64_t aborted_generation_ GUARDED_BY(mutex_) =
      0;  // this one and all before it are over
  std::shared_ptr<CancelToken> cancel_ GUARDED_BY(mutex_) =
      std::make_shared<CancelToken>();
  std::shared_ptr<Communicator> communicator_ GUARDED_BY(mutex_);
};

absl::StatusOr<PlanAgreement> JobTrainer::Prepare(
    const v1::TrainProgram& program, const RankAssignment& assignment) {
  BeginGeneration(assignment.generation);
  board_.EnterPhase(TrainPhase::kPrepare);
  RETURN_IF_ERROR(FAIL_POINT("train.prepare"));
  if (state_ == nullptr) RETURN_IF_ERROR(MakeState(program));
  assignment_ = assignment;
  RETURN_IF_ERROR(state_->ResumeAt(assignment.resume_step));
  const ElemRange part = ChunkOf(assignment.data_index, assignment.world_size,
                                 state_->config().global_batch);
  RETURN_IF_ERROR(
      state_->ReserveBatch(std::max(part.count, kMinBufferedSamples)));
  RETURN_IF_ERROR(StartPrefetcher());
  board_.BeginGeneration(assignment.generation, state_->config().steps);
  board_.SetSteps(state_->applied_step(), state_->complete_step());
  return state_->Agreement();
}

void JobTrainer::BeginGeneration(int64_t generation) {
  MutexLock lock(mutex_);
  generation_ = generation;
  cancel_ = std::make_shared<CancelToken>();
  if (aborted_generation_ >= generation)
    cancel_->Cancel("the generation was over before it began");
}

absl::Status JobTrainer::MakeState(const v1::TrainProgram& program) {
  trace_.Clear();  // kept until now, so that an ended job can be looked at
  ASSIGN_OR_RETURN(const ProgramConfig config, ParseProgram(program));
  ASSIGN_OR_RETURN(state_, TrainingState::Create(config));
  return absl::OkStatus();
}

absl::Status JobTrainer::StartPrefetcher() {
  const int64_t global_batch = state_->config().global_batch;
  const ElemRange part =
      ChunkOf(assignment_.data_index, assignment_.world_size, global_batch);
  if (prefetcher_ == nullptr || prefetcher_capacity_ < part.count) {
    prefetcher_capacity_ = std::max<int64_t>(part.count, 1);
    prefetcher_.reset();
    prefetcher_ = std::make_unique<Prefetcher>(
        state_->dataset(), state_->sampler(),
        Prefetcher::Options{.global_batch = global_batch,
                            .max_local_batch = prefetcher_capacity_},
        clock_);
  }
  return prefetcher_->Start(state_->applied_step() + 1, assignment_.data_index,
                            assignment_.world_size);
}

RunOutcome JobTrainer::Run() {
  RM_CHECK(state_ != nullptr, "Run follows a successful Prepare");
  const absl::StatusOr<GenerationRun::End> end = RunGeneration();
  {
    MutexLock lock(mutex_);
    communicator_.reset();
  }
  board_.SetSteps(state_->applied_step(), state_->complete_step());
  board_.EnterPhase(TrainPhase::kHalted);
  LogCounters();
  return MakeOutcome(end);
}

void JobTrainer::LogCounters() const {
  if (!IsLogged(LogLevel::kDebug)) return;
  for (const MetricSample& sample : metrics_.Samples()) {
    LogEvent(LogLevel::kDebug, "counter",
             {{"name", sample.name}, {"value", sample.value}});
  }
}

absl::StatusOr<GenerationRun::End> JobTrainer::RunGeneration() {
  std::shared_ptr<CancelToken> cancel;
  {
    MutexLock lock(mutex_);
    cancel = cancel_;
  }
  RETURN_IF_ERROR(cancel->status());
  blamed_rank_ = -1;
  board_.EnterPhase(TrainPhase::kConnect);
  ASSIGN_OR_RETURN(const std::shared_ptr<Communicator> communicator, Connect());
  board_.EnterPhase(TrainPhase::kStep);
  GenerationRun run(assignment_.generation, assignment_.collective_timeout,
                    {*state_, *communicator, *prefetcher_, board_, wishes_,
                     *cancel, clock_, trace_, counters_});
  absl::StatusOr<GenerationRun::End> end = run.Run();
  if (!end.ok()) {
    blamed_rank_ = communicator->progress().blamed_rank;
    // Whatever it was, peers must not wait for this rank: they see the
    // connection close, and the reason is ours to tell.
    communicator->Abort(std::string(end.status().message()));
  }
  counters_.generations.Increment();
  counters_.AddWire(communicator->counters());
  return end;
}

absl::StatusOr<std::shared_ptr<Communicator>> JobTrainer::Connect() {
  std::shared_ptr<CancelToken> cancel;
  {
    MutexLock lock(mutex_);
    cancel = cancel_;
  }
  RingConfig ring;
  ring.job_id = assignment_.job_id;
  ring.generation = assignment_.generation;
  ring.rank = assignment_.rank;
  ring.world_size = assignment_.world_size;
  ring.next_address = assignment_.next.address;
  ring.secret = assignment_.secret;
  ring.deadline = clock_.Now() + assignment_.connect_timeout;
  ring.clock = &clock_;
  ring.trace = &trace_;
  ring.on_refused = [this](const absl::Status& why) {
    counters_.refused_connections.Increment();
    LogEvent(LogLevel::kWarning, "connection.refused",
             {{"message", std::string(why.message())}});
  };
  ASSIGN_OR_RETURN(std::unique_ptr<Communicator> connected,
                   ConnectRing(listener_, ring, cancel.get()));
  std::shared_ptr<Communicator> communicator = std::move(connected);
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(cancel->status());
  communicator_ = communicator;
  return communicator;
}

RunOutcome JobTrainer::MakeOutcome(
    const absl::StatusOr<GenerationRun::End>& end) const {
  RunOutcome outcome;
  outcome.applied_step = state_->applied_step();
  outcome.complete_step = state_->complete_step();
  if (end.ok()) {
    outcome.kind =
        *end == GenerationRun::End::kFinished  ? RunOutcome::Kind::kFinished
        : *end == GenerationRun::End::kStopped ? RunOutcome::Kind::kStopped
                                               : RunOutcome::Kind::kDrained;
    outcome.parameters_hash = state_->ParametersHash();
    return outcome;
  }
  outcome.status = end.status();
  {
    MutexLock lock(mutex_);
    if (cancel_->is_cancelled()) {
      outcome.kind = RunOutcome::Kind::kInterrupted;
      return outcome;
    }
  }
  switch (end.status().code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
      outcome.kind = RunOutcome::Kind::kPeerFailed;
      outcome.peer_rank = blamed_rank_;
      break;
    case absl::StatusCode::kFailedPrecondition:
      outcome.kind = RunOutcome::Kind::kFailed;
      outcome.status = WithExitCode(end.status(), ExitCode::kPlanMismatch);
      break;
    default:
      outcome.kind = RunOutcome::Kind::kFailed;
  }
  return outcome;
}

void JobTrainer::Abort(int64_t generation, std::string_view why) {
  std::shared_ptr<CancelToken> cancel;
  std::shared_ptr<Communicator> communicator;
  {
    MutexLock lock(mutex_);
    aborted_generation_ = std::max(aborted_generation_, generation);
    if (generation_ > generation) return;
    cancel = cancel_;
    communicator = communicator_;
  }
  cancel->Cancel(why);
  if (communicator != nullptr) communicator->Abort(why);
}

void JobTrainer::Release() {
  prefetcher_.reset();
  state_.reset();
  prefetcher_capacity_ = 0;
  wishes_.stop = false;
  board_.Clear();
}

TrainProgress JobTrainer::progress() const {
  TrainProgress progress = board_.progress();
  std::shared_ptr<Communicator> communicator;
  {
    MutexLock lock(mutex_);
    communicator = communicator_;
  }
  if (communicator != nullptr) {
    const CollectiveProgress collective = communicator->progress();
    progress.collective_sequence = collective.completed;
    progress.waiting_for_rank = collective.waiting_for_rank;
  }
  return progress;
}

}  // namespace

std::unique_ptr<Trainer> MakeJobTrainer(Clock& clock,
                                        const Listener& listener) {
  return std::make_unique<JobTrainer>(clock, listener);
}

}  // namespace ringmaster
