#include "worker/train/job_trainer.h"

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/logging/logging.h"
#include "common/metrics/metrics.h"
#include "common/plan/partition.h"
#include "common/status/check.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "common/sync/mutex.h"
#include "common/transport/cancel_token.h"
#include "common/transport/establish.h"
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
  [[nodiscard]] std::shared_ptr<const CancelToken> cancel() const
      EXCLUDES(mutex_);
  [[nodiscard]] absl::StatusOr<PlanAgreement> TryPrepare(
      const v1::TrainProgram& program, const RankAssignment& assignment);
  [[nodiscard]] absl::Status MakeState(const v1::TrainProgram& program);
  [[nodiscard]] absl::Status StartPrefetcher();
  [[nodiscard]] absl::StatusOr<GenerationRun::End> RunGeneration();
  [[nodiscard]] absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      const CancelToken& cancel);
  // Lets Abort and progress() reach what RunGeneration owns, unless it was
  // aborted before.
  [[nodiscard]] absl::Status Expose(Communicator& communicator)
      EXCLUDES(mutex_);
  void Unexpose() EXCLUDES(mutex_);
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
  // Of the run under way, else null. Called under the mutex, so that nobody but
  // the training thread ever destroys a communicator: until that has joined its
  // thread, the gradients may be written to.
  Communicator* communicator_ GUARDED_BY(mutex_) = nullptr;
  Prefetcher* fetching_ GUARDED_BY(mutex_) = nullptr;
};

absl::StatusOr<PlanAgreement> JobTrainer::Prepare(
    const v1::TrainProgram& program, const RankAssignment& assignment) {
  BeginGeneration(assignment.generation);
  board_.EnterPhase(TrainPhase::kPrepare);
  try {
    return TryPrepare(program, assignment);
  } catch (const std::bad_alloc&) {
    // How the standard containers, which hold data and batches, say it.
    return absl::ResourceExhaustedError(absl::StrCat(
        "rank ", assignment.rank,
        ": this host has too little memory for the job's data and batches"));
  }
}

absl::StatusOr<PlanAgreement> JobTrainer::TryPrepare(
    const v1::TrainProgram& program, const RankAssignment& assignment) {
  RETURN_IF_ERROR(FAIL_POINT("train.prepare"));
  if (state_ == nullptr) RETURN_IF_ERROR(MakeState(program));
  assignment_ = assignment;
  const absl::Status resumed = state_->ResumeAt(assignment.resume_step);
  // Before anything else can fail: a halt is answered with these.
  board_.SetSteps(state_->applied_step(), state_->complete_step());
  RETURN_IF_ERROR(resumed);
  const ElemRange part = ChunkOf(assignment.data_index, assignment.world_size,
                                 state_->config().global_batch);
  RETURN_IF_ERROR(
      state_->ReserveBatch(std::max(part.count, kMinBufferedSamples)));
  RETURN_IF_ERROR(StartPrefetcher());
  board_.BeginGeneration(assignment.generation, state_->config().steps);
  return state_->Agreement();
}

void JobTrainer::BeginGeneration(int64_t generation) {
  MutexLock lock(mutex_);
  generation_ = generation;
  cancel_ = std::make_shared<CancelToken>();
  if (aborted_generation_ >= generation)
    cancel_->Cancel("the generation was over before it began");
}

std::shared_ptr<const CancelToken> JobTrainer::cancel() const {
  MutexLock lock(mutex_);
  return cancel_;
}

absl::Status JobTrainer::MakeState(const v1::TrainProgram& program) {
  trace_.Clear();  // kept until now, so that an ended job can be looked at
  ASSIGN_OR_RETURN(const ProgramConfig config, ParseProgram(program));
  ASSIGN_OR_RETURN(state_, TrainingState::Create(config, cancel().get()));
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
  const std::shared_ptr<const CancelToken> cancel = this->cancel();
  blamed_rank_ = -1;
  RETURN_IF_ERROR(cancel->status());
  board_.EnterPhase(TrainPhase::kConnect);
  const absl::StatusOr<std::unique_ptr<Communicator>> connected =
      Connect(*cancel);
  blamed_rank_ = BlamedPeer(connected.status());
  RETURN_IF_ERROR(connected.status());
  Communicator* const communicator = connected->get();
  RETURN_IF_ERROR(Expose(*communicator));
  const absl::Cleanup unexpose = [this] { Unexpose(); };
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

absl::Status JobTrainer::Expose(Communicator& communicator) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(cancel_->status());
  communicator_ = &communicator;
  fetching_ = prefetcher_.get();
  return absl::OkStatus();
}

void JobTrainer::Unexpose() {
  MutexLock lock(mutex_);
  communicator_ = nullptr;
  fetching_ = nullptr;
}

absl::StatusOr<std::unique_ptr<Communicator>> JobTrainer::Connect(
    const CancelToken& cancel) {
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
  return ConnectRing(listener_, ring, &cancel);
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
  if (cancel()->is_cancelled()) {
    outcome.kind = RunOutcome::Kind::kInterrupted;
    return outcome;
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
  MutexLock lock(mutex_);
  aborted_generation_ = std::max(aborted_generation_, generation);
  if (generation_ > generation) return;
  cancel_->Cancel(why);
  if (communicator_ != nullptr) communicator_->Abort(why);
  if (fetching_ != nullptr) fetching_->Cancel();
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
  MutexLock lock(mutex_);
  if (communicator_ != nullptr) {
    const CollectiveProgress collective = communicator_->progress();
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
