#include "worker/train/job_trainer.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/logging/logging.h"
#include "common/metrics/metrics.h"
#include "common/plan/partition.h"
#include "common/status/annotate.h"
#include "common/status/check.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "common/sync/mutex.h"
#include "common/transport/cancel_token.h"
#include "common/transport/establish.h"
#include "common/transport/tcp.h"
#include "worker/collective/connect_ring.h"
#include "worker/data/prefetcher.h"
#include "worker/figures/peak_flops.h"
#include "worker/train/checkpoint_start.h"
#include "worker/train/generation_run.h"
#include "worker/train/job_files.h"
#include "worker/train/program_config.h"
#include "worker/train/progress_board.h"
#include "worker/train/state_copy.h"
#include "worker/train/text_sampler.h"
#include "worker/train/train_counters.h"
#include "worker/train/training_state.h"

namespace ringmaster {
namespace {

// Evaluation uses the training buffers; a rank with a tiny part of the batch
// should not evaluate target by target.
constexpr int64_t kMinBufferedTargets = 64;

std::string LoadedText(const CheckpointStart& start) {
  std::string text = "starts from the beginning";
  if (!start.path.empty()) {
    text = absl::StrCat("starts from ", start.path);
  } else if (start.step > 0) {
    text = absl::StrCat("starts from the checkpoint of rank ",
                        start.source_rank, " after step ", start.step);
  }
  if (!start.remark.empty()) absl::StrAppend(&text, "; ", start.remark);
  return text;
}

class JobTrainer final : public Trainer {
 public:
  JobTrainer(Clock& clock, const Listener& listener, int threads)
      : clock_(clock), listener_(listener), threads_(threads) {}

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
  void SetNoticeCallback(
      std::function<void(const TrainNotice&)> on_notice) override {
    on_notice_ = std::move(on_notice);
  }
  void SetAdvanceCallback(std::function<void(int64_t)> on_advance) override {
    board_.SetAdvanceCallback(std::move(on_advance));
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
  [[nodiscard]] absl::Status MakeState(const v1::TrainProgram& program,
                                       const RankAssignment& assignment);
  // Samples that the model needs room for.
  [[nodiscard]] int64_t BufferedSamples(const RankAssignment& assignment) const;
  [[nodiscard]] absl::Status MakeSampler();
  [[nodiscard]] absl::Status SettleState(const v1::TrainProgram& program,
                                         const RankAssignment& assignment);
  [[nodiscard]] absl::Status TakeOverState(Communicator& communicator,
                                           const CancelToken& cancel);
  [[nodiscard]] absl::Status StartFromFiles(Communicator& communicator,
                                            const CancelToken& cancel);
  void Notify(const TrainNotice& notice);
  [[nodiscard]] absl::Status StartPrefetcher(int64_t first_step);
  [[nodiscard]] absl::StatusOr<GenerationRun::End> RunGeneration();
  // The same, with what the standard library throws as a Status.
  [[nodiscard]] absl::StatusOr<GenerationRun::End> TryRunGeneration();
  [[nodiscard]] absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      const CancelToken& cancel);
  [[nodiscard]] absl::StatusOr<GenerationRun::End> Train(
      Communicator& communicator, const CancelToken& cancel);
  // Of this process's threads, at the job's precision.
  [[nodiscard]] double PeakFlopsOfJob();
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
  const int threads_;
  Trace trace_;
  MetricRegistry metrics_;
  TrainCounters counters_{metrics_};
  ProgressBoard board_;
  Wishes wishes_;
  std::function<void(const TrainNotice&)> on_notice_ = [](const TrainNotice&) {
  };

  // Only on the training thread.
  RankAssignment assignment_;
  std::unique_ptr<TrainingState> state_;
  std::unique_ptr<JobFiles> files_;         // refers to state_
  std::unique_ptr<TextSampler> sampler_;    // null: no text is asked for
  std::unique_ptr<Prefetcher> prefetcher_;  // refers to state_
  int64_t prefetcher_capacity_ = 0;
  PeakFlops peak_flops_;  // measured once
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
  } catch (const std::system_error& error) {
    // How std::thread says that there can be no more threads.
    return absl::ResourceExhaustedError(
        absl::StrCat("rank ", assignment.rank, ": ", error.what()));
  }
}

absl::StatusOr<PlanAgreement> JobTrainer::TryPrepare(
    const v1::TrainProgram& program, const RankAssignment& assignment) {
  RETURN_IF_ERROR(FAIL_POINT("train.prepare"));
  assignment_ = assignment;  // notices go by it
  RETURN_IF_ERROR(SettleState(program, assignment));
  RETURN_IF_ERROR(state_->ReserveBatch(BufferedSamples(assignment)));
  RETURN_IF_ERROR(StartPrefetcher(assignment.resume_step + 1));
  board_.BeginGeneration(assignment.generation, state_->config().steps);
  return state_->Agreement();
}

absl::Status JobTrainer::SettleState(const v1::TrainProgram& program,
                                     const RankAssignment& assignment) {
  if (state_ == nullptr) {
    RETURN_IF_ERROR(MakeState(program, assignment));
  } else if (assignment.is_newcomer) {
    state_->BecomeNewcomer();
  }
  const absl::Status resumed = assignment.is_newcomer
                                   ? absl::OkStatus()
                                   : state_->ResumeAt(assignment.resume_step);
  // Before anything else can fail: a halt is answered with these.
  board_.SetSteps(state_->applied_step(), state_->complete_step());
  RETURN_IF_ERROR(resumed);
  // Checkpoints of steps that are to be made anew are written anew.
  if (state_->applied_step() == 0) files_->StartsFrom(0);
  return absl::OkStatus();
}

void JobTrainer::BeginGeneration(int64_t generation) {
  // What was wished for ended with the generation that it was wished for in.
  wishes_.stop.store(false, std::memory_order_relaxed);
  wishes_.drain.store(false, std::memory_order_relaxed);
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

absl::Status JobTrainer::MakeState(const v1::TrainProgram& program,
                                   const RankAssignment& assignment) {
  trace_.Clear();  // kept until now, so that an ended job can be looked at
  ASSIGN_OR_RETURN(const ProgramConfig config, ParseProgram(program));
  const ElemRange part = ChunkOf(assignment.data_index, assignment.world_size,
                                 config.global_batch);
  TrainingState::Options options;
  options.threads = threads_;
  options.ranks_on_host = assignment.local_world_size;
  options.local_batch = part.count;
  const std::shared_ptr<const CancelToken> cancel = this->cancel();
  options.cancel = cancel.get();
  options.is_newcomer = assignment.is_newcomer;
  ASSIGN_OR_RETURN(state_, TrainingState::Create(config, options));
  const absl::Status sampler = MakeSampler();
  if (!sampler.ok()) {
    state_.reset();  // the next attempt begins anew
    return sampler;
  }
  files_ = std::make_unique<JobFiles>(
      *state_, board_, [this](const TrainNotice& notice) { Notify(notice); },
      clock_);
  const int64_t skipped = state_->dataset().skipped_samples();
  board_.SetSkippedSamples(skipped);
  if (skipped > 0 && assignment.rank == 0) {
    TrainNotice notice;
    notice.kind = TrainNotice::Kind::kSamplesSkipped;
    notice.generation = assignment.generation;
    notice.message =
        absl::StrCat(skipped, " samples are not valid and were left out");
    Notify(notice);
  }
  return absl::OkStatus();
}

absl::Status JobTrainer::MakeSampler() {
  const ProgramConfig& config = state_->config();
  sampler_.reset();
  if (config.sample.prompt.empty()) return absl::OkStatus();
  const ModelInput& input = state_->model().input();
  if (input.shape.tokens == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "train.sample: the model ", config.model.kind, " does not write text"));
  }
  absl::StatusOr<std::unique_ptr<TextSampler>> sampler =
      TextSampler::Create(config.sample, config.data.vocabulary_path,
                          config.data.merges_path, input.vocabulary);
  if (!sampler.ok()) return Annotate(sampler.status(), "train.sample");
  sampler_ = *std::move(sampler);
  return absl::OkStatus();
}

int64_t JobTrainer::BufferedSamples(const RankAssignment& assignment) const {
  const ElemRange part = ChunkOf(assignment.data_index, assignment.world_size,
                                 state_->config().global_batch);
  return std::max(part.count, std::max<int64_t>(
                                  1, kMinBufferedTargets / state_->targets()));
}

absl::Status JobTrainer::TakeOverState(Communicator& communicator,
                                       const CancelToken& cancel) {
  if (assignment_.state_source_rank < 0) return absl::OkStatus();
  board_.EnterPhase(TrainPhase::kTransfer);
  RETURN_IF_ERROR(CopyState(*state_, communicator,
                            {.source_rank = assignment_.state_source_rank,
                             .is_newcomer = assignment_.is_newcomer,
                             .resume_step = assignment_.resume_step,
                             .wait_timeout = assignment_.collective_timeout},
                            clock_, cancel));
  board_.SetSteps(state_->applied_step(), state_->complete_step());
  return absl::OkStatus();
}

absl::Status JobTrainer::StartFromFiles(Communicator& communicator,
                                        const CancelToken& cancel) {
  if (state_->applied_step() > 0 ||
      state_->config().checkpoint.directory.empty())
    return absl::OkStatus();
  if (!state_->config().checkpoint.resume) return absl::OkStatus();
  board_.EnterPhase(TrainPhase::kCheckpoint);
  ASSIGN_OR_RETURN(
      const CheckpointStart start,
      StartFromCheckpoint(*state_, communicator, assignment_.collective_timeout,
                          clock_, cancel, board_.disk()));
  board_.SetSteps(state_->applied_step(), state_->complete_step());
  // Ranks of one host see the same files: one of them is enough to remark.
  if (!start.path.empty() ||
      (!start.remark.empty() && assignment_.local_rank == 0)) {
    TrainNotice notice;
    notice.kind = TrainNotice::Kind::kCheckpointLoaded;
    notice.step = start.step;
    notice.message = LoadedText(start);
    Notify(notice);
  }
  if (start.step == 0) return absl::OkStatus();
  files_->StartsFrom(start.step);
  return StartPrefetcher(start.step + 1);
}

void JobTrainer::Notify(const TrainNotice& notice) {
  TrainNotice complete = notice;
  complete.generation = assignment_.generation;
  on_notice_(complete);
}

absl::Status JobTrainer::StartPrefetcher(int64_t first_step) {
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
  return prefetcher_->Start(first_step, assignment_.data_index,
                            assignment_.world_size);
}

RunOutcome JobTrainer::Run() {
  RM_CHECK(state_ != nullptr, "Run follows a successful Prepare");
  const absl::StatusOr<GenerationRun::End> end = TryRunGeneration();
  board_.SetSteps(state_->applied_step(), state_->complete_step());
  board_.EnterPhase(TrainPhase::kHalted);
  LogCounters();
  return MakeOutcome(end);
}

absl::StatusOr<GenerationRun::End> JobTrainer::TryRunGeneration() {
  try {
    return RunGeneration();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("rank ", assignment_.rank,
                     ": this host has too little memory for the job"));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("rank ", assignment_.rank, ": ", error.what()));
  }
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
  absl::StatusOr<GenerationRun::End> end = Train(*communicator, *cancel);
  board_.SetSteps(state_->applied_step(), state_->complete_step());
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

absl::StatusOr<GenerationRun::End> JobTrainer::Train(
    Communicator& communicator, const CancelToken& cancel) {
  RETURN_IF_ERROR(TakeOverState(communicator, cancel));
  RETURN_IF_ERROR(StartFromFiles(communicator, cancel));
  board_.EnterPhase(TrainPhase::kStep);
  RETURN_IF_ERROR(files_->BeginGeneration(assignment_.generation,
                                          assignment_.local_rank, communicator,
                                          assignment_.collective_timeout));
  const absl::Cleanup end_generation = [this] { files_->EndGeneration(); };
  GenerationRun run(
      assignment_.generation, assignment_.collective_timeout,
      {*state_, communicator, *prefetcher_, board_, wishes_, cancel, clock_,
       trace_, counters_, *files_, sampler_.get(), PeakFlopsOfJob(),
       [this](const TrainNotice& notice) { Notify(notice); }});
  return run.Run();
}

double JobTrainer::PeakFlopsOfJob() {
  if (peak_flops_.float32 == 0) peak_flops_ = MeasurePeakFlops(clock_);
  // Where bfloat16 is computed by float32 instructions, that is the peak.
  const double peak = state_->config().precision == Precision::kBFloat16
                          ? std::max(peak_flops_.float32, peak_flops_.bfloat16)
                          : peak_flops_.float32;
  return peak * state_->threads();
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
  if (!FAIL_POINT("train.abort").ok()) return;  // it is lost
  MutexLock lock(mutex_);
  aborted_generation_ = std::max(aborted_generation_, generation);
  if (generation_ > generation) return;
  cancel_->Cancel(why);
  if (communicator_ != nullptr) communicator_->Abort(why);
  if (fetching_ != nullptr) fetching_->Cancel();
}

void JobTrainer::Release() {
  prefetcher_.reset();
  files_.reset();
  sampler_.reset();
  state_.reset();
  prefetcher_capacity_ = 0;
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

std::unique_ptr<Trainer> MakeJobTrainer(Clock& clock, const Listener& listener,
                                        int threads) {
  return std::make_unique<JobTrainer>(clock, listener, threads);
}

}  // namespace ringmaster
