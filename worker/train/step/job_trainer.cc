#include "worker/train/step/job_trainer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/fail_point/fail_point.h"
#include "common/job/job_spec.h"
#include "common/logging/logging.h"
#include "common/metrics/metrics.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "common/transport/blamed_peer.h"
#include "common/transport/cancel_token.h"
#include "common/transport/tcp.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/figures/peak_flops.h"
#include "worker/member/assignment_mesh.h"
#include "worker/member/catch_exhaustion.h"
#include "worker/member/end_process.h"
#include "worker/member/progress_board.h"
#include "worker/member/run_outcome.h"
#include "worker/member/shard_links.h"
#include "worker/member/train_counters.h"
#include "worker/train/exchange/generation_log.h"
#include "worker/train/exchange/gradient_exchange.h"
#include "worker/train/exchange/live_generation.h"
#include "worker/train/exchange/server_generation.h"
#include "worker/train/state/checkpoint_start.h"
#include "worker/train/state/initial_parameters.h"
#include "worker/train/state/settle_parts.h"
#include "worker/train/state/state_copy.h"
#include "worker/train/step/generation_run.h"
#include "worker/train/step/prepared_job.h"

namespace ringmaster {
namespace {

// A generation without a step has newcomers who take the state over; else it is
// there for a checkpoint.
NoStep NoStepOf(const RankAssignment& assignment) {
  if (!assignment.makes_no_step) return NoStep::kNone;
  return assignment.state_source_rank >= 0 ? NoStep::kHandOver : NoStep::kSave;
}

class JobTrainer final : public JobRunner {
 public:
  JobTrainer(Clock& clock, const Listener& listener, int threads,
             std::unique_ptr<ShardHost> host,
             std::unique_ptr<Accelerator> accelerator)
      : clock_(clock),
        listener_(listener),
        threads_(threads),
        accelerator_(std::move(accelerator)),
        host_(std::move(host)) {}

  absl::StatusOr<PlanAgreement> Prepare(
      const v1::JobSpec& spec, const RankAssignment& assignment) override;
  RunOutcome Run() override;
  void Abort(int64_t generation, std::string_view why) override;
  void RequestStop() override {
    wishes_.stop.store(true, std::memory_order_relaxed);
  }
  void RequestDrain() override {
    wishes_.drain.store(true, std::memory_order_relaxed);
  }
  void RequestLeave() override {
    wishes_.leave.store(true, std::memory_order_relaxed);
  }
  void RequestPause(bool is_let_go, int let_go_count) override {
    wishes_.let_go.store(is_let_go, std::memory_order_relaxed);
    wishes_.let_go_count.store(let_go_count, std::memory_order_relaxed);
    // Whoever sees it sees the two above.
    wishes_.drain.store(true, std::memory_order_release);
  }
  void SetNoticeCallback(
      std::function<void(const v1::Notice&)> on_notice) override {
    on_notice_ = std::move(on_notice);
  }
  void SetAdvanceCallback(std::function<void(int64_t)> on_advance) override {
    board_.SetAdvanceCallback(std::move(on_advance));
  }
  void Release() override;
  TrainProgress progress() const override;
  std::vector<MetricSample> metrics() const override {
    return metrics_.Samples();
  }
  const Trace& trace() const override { return trace_; }

 private:
  [[nodiscard]] absl::StatusOr<PlanAgreement> TryPrepare(
      const v1::TrainProgram& program, const RankAssignment& assignment);
  [[nodiscard]] absl::Status MakeJob(const v1::TrainProgram& program,
                                     const RankAssignment& assignment);
  [[nodiscard]] absl::Status SettleState(const v1::TrainProgram& program,
                                         const RankAssignment& assignment);
  [[nodiscard]] absl::Status TakeOverState(Communicator& communicator,
                                           const CancelToken& cancel);
  [[nodiscard]] GenerationRun::End GiveStateUp(const absl::Status& why);
  [[nodiscard]] absl::Status StartFromFiles(Communicator& communicator,
                                            const CancelToken& cancel);
  [[nodiscard]] absl::Status AgreeOnBeginning(Communicator& communicator);
  void Notify(const v1::Notice& notice);
  // Ends the process if `status` says that it has lost its accelerator: the
  // others go on, and another process takes its place.
  void EndIfLost(const absl::Status& status) const;
  // On the board: where the state is.
  void ShowSteps();
  [[nodiscard]] absl::StatusOr<GenerationRun::End> RunGeneration();
  [[nodiscard]] absl::Status PrepareHost(const v1::TrainProgram& program);
  [[nodiscard]] absl::Status Expose();
  [[nodiscard]] absl::StatusOr<GenerationRun::End> Train(
      const CancelToken& cancel);
  // Returns the peak of this process's threads, or of its accelerator if it has
  // one, at the job's precision.
  [[nodiscard]] double PeakFlopsOfJob();
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
  std::function<void(const v1::Notice&)> on_notice_ = [](const v1::Notice&) {};

  // Only on the training thread.
  const std::unique_ptr<Accelerator> accelerator_;  // null: threads compute
  RankAssignment assignment_;
  std::unique_ptr<PreparedJob> job_;  // null: no job
  PeakFlops peak_flops_;              // measured once
  std::unique_ptr<ShardHost> host_;   // null: this process holds no shards
  std::unique_ptr<GradientExchange> exchange_;  // of the generation under way
  // The peer that this generation failed on; -1: unknown.
  int blamed_rank_ = -1;

  LiveGeneration live_;
};

absl::StatusOr<PlanAgreement> JobTrainer::Prepare(
    const v1::JobSpec& spec, const RankAssignment& assignment) {
  // Wishes end with the generation that they were made in.
  wishes_.stop.store(false, std::memory_order_relaxed);
  wishes_.drain.store(false, std::memory_order_relaxed);
  wishes_.leave.store(false, std::memory_order_relaxed);
  wishes_.let_go.store(false, std::memory_order_relaxed);
  wishes_.let_go_count.store(0, std::memory_order_relaxed);
  live_.Begin(assignment.generation);
  board_.EnterPhase(TrainPhase::kPrepare);
  absl::StatusOr<PlanAgreement> agreement = CatchExhaustion(
      assignment.rank, [&] { return TryPrepare(spec.train(), assignment); });
  EndIfLost(agreement.status());
  return agreement;
}

absl::StatusOr<PlanAgreement> JobTrainer::TryPrepare(
    const v1::TrainProgram& program, const RankAssignment& assignment) {
  RETURN_IF_ERROR(FAIL_POINT("train.prepare"));
  if (accelerator_ != nullptr) {
    RETURN_IF_ERROR(accelerator_->Enter());
    RETURN_IF_ERROR(CheckNcclTraffic(assignment));
  }
  assignment_ = assignment;  // notices go by it
  // First, so that the host's shards are as of the resume step whatever fails
  // later.
  RETURN_IF_ERROR(PrepareHost(program));
  RETURN_IF_ERROR(SettleState(program, assignment));
  RETURN_IF_ERROR(CheckShards(job_->state(), assignment));
  RETURN_IF_ERROR(job_->ReserveBatch(assignment));
  RETURN_IF_ERROR(
      job_->StartPrefetcher(assignment, assignment.resume_step + 1));
  board_.BeginGeneration(
      assignment.generation, job_->config().program.steps(),
      job_->state().plan().total_elems() * static_cast<int64_t>(sizeof(float)));
  return job_->state().Agreement();
}

absl::Status JobTrainer::SettleState(const v1::TrainProgram& program,
                                     const RankAssignment& assignment) {
  if (job_ == nullptr) {
    RETURN_IF_ERROR(MakeJob(program, assignment));
  } else if (assignment.is_newcomer) {
    job_->state().BecomeNewcomer();
  }
  const int64_t interrupted_step = job_->state().applied_step() + 1;
  const bool is_complete =
      job_->state().complete_step() == assignment.resume_step;
  const double learning_rate = job_->state().learning_rate();
  absl::Status resumed;
  if (job_->state().has_servers()) {
    job_->state().FollowServers(assignment.resume_step);
  } else if (!assignment.is_newcomer) {
    resumed = job_->state().ResumeAt(assignment.resume_step);
  }
  // Before anything else can fail: the answer to a halt reports these.
  ShowSteps();
  RETURN_IF_ERROR(resumed);
  if (!assignment.is_newcomer && assignment.resume_step == interrupted_step) {
    job_->files().NoteSettled(
        assignment.resume_step,
        is_complete ? std::sqrt(job_->state().complete_norm_squared())
                    : std::numeric_limits<double>::quiet_NaN(),
        learning_rate);
  }
  // Checkpoints of steps that will be repeated are written again.
  if (job_->state().applied_step() == 0) job_->files().StartsFrom(0);
  return absl::OkStatus();
}

absl::Status JobTrainer::PrepareHost(const v1::TrainProgram& program) {
  if (HoldsShards(assignment_)) {
    if (host_ != nullptr) {
      ASSIGN_OR_RETURN(const v1::TrainProgram defaulted,
                       DefaultProgram(program));
      return host_->Prepare(defaulted, HostAssignmentOf(assignment_));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", assignment_.rank, " is to hold shards, which it cannot"));
  }
  // Other members now hold the shards that it held before.
  if (host_ != nullptr) host_->Release();
  return absl::OkStatus();
}

absl::Status JobTrainer::MakeJob(const v1::TrainProgram& program,
                                 const RankAssignment& assignment) {
  trace_.Clear();  // kept until now, so that an ended job can be looked at
  const std::shared_ptr<const CancelToken> cancel = live_.cancel();
  ASSIGN_OR_RETURN(
      job_,
      PreparedJob::Create(
          program, assignment, *cancel,
          {.threads = threads_,
           .accelerator = accelerator_.get(),
           .board = board_,
           .on_notice = [this](const v1::Notice& notice) { Notify(notice); },
           .clock = clock_}));
  const int64_t skipped = job_->state().dataset().skipped_samples();
  board_.SetSkippedSamples(skipped);
  if (skipped > 0 && assignment.rank == 0) {
    v1::Notice notice;
    notice.set_kind(v1::NOTICE_KIND_SAMPLES_SKIPPED);
    notice.set_message(
        absl::StrCat(skipped, " samples are not valid and were left out"));
    Notify(notice);
  }
  return absl::OkStatus();
}

absl::Status JobTrainer::TakeOverState(Communicator& communicator,
                                       const CancelToken& cancel) {
  if (assignment_.state_source_rank < 0 && !job_->state().is_sharded())
    return absl::OkStatus();
  board_.EnterPhase(TrainPhase::kTransfer);
  return CopyState(job_->state(), communicator,
                   {.source_rank = assignment_.state_source_rank,
                    .ranks = Topology::OfHosts(assignment_.ranks_per_host),
                    .is_newcomer = assignment_.is_newcomer,
                    .resume_step = assignment_.resume_step,
                    .wait_timeout = assignment_.collective_timeout},
                   clock_, cancel);
}

// All ranks end so, as they do for a pause, and the next generation begins with
// a checkpoint or anew.
GenerationRun::End JobTrainer::GiveStateUp(const absl::Status& why) {
  if (assignment_.rank == 0) {
    v1::Notice notice;
    notice.set_kind(v1::NOTICE_KIND_STATE_GIVEN_UP);
    notice.set_step(assignment_.resume_step);
    notice.set_message(std::string(why.message()));
    Notify(notice);
  }
  return GenerationRun::End::kDrained;
}

absl::Status JobTrainer::StartFromFiles(Communicator& communicator,
                                        const CancelToken& cancel) {
  if (job_->state().applied_step() > 0 ||
      job_->config().program.checkpoint().directory().empty())
    return absl::OkStatus();
  if (!job_->config().program.checkpoint().resume()) return absl::OkStatus();
  board_.EnterPhase(TrainPhase::kCheckpoint);
  ASSIGN_OR_RETURN(const CheckpointStart start,
                   StartFromCheckpoint(job_->state(), communicator,
                                       assignment_.collective_timeout, clock_,
                                       cancel, board_.disk()));
  // Ranks of one host see the same files: one of them is enough to remark.
  if (!start.path.empty() ||
      (!start.remark.empty() && assignment_.local_rank == 0)) {
    v1::Notice notice;
    notice.set_kind(v1::NOTICE_KIND_CHECKPOINT_LOADED);
    notice.set_step(start.step);
    notice.set_message(DescribeStart(start));
    notice.set_checkpoint(start.path);
    notice.set_checkpoint_job_id(start.job_id);
    Notify(notice);
  }
  if (start.step == 0) return absl::OkStatus();
  job_->files().StartsFrom(start.step);
  return job_->StartPrefetcher(assignment_, start.step + 1);
}

absl::Status JobTrainer::AgreeOnBeginning(Communicator& communicator) {
  const std::string& path = job_->config().program.initial_parameters();
  if (job_->state().applied_step() > 0 || path.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      const std::vector<int> others,
      ShareInitialParameters(job_->state(), communicator,
                             assignment_.collective_timeout, clock_));
  if (others.empty() || assignment_.rank != 0) return absl::OkStatus();
  LogEvent(LogLevel::kWarning, "train.initial_parameters_differed",
           {{"path", path},
            {"ranks", absl::StrJoin(others, ",")},
            {"message",
             "these had read others than rank 0; all begin with those of rank "
             "0"}});
  return absl::OkStatus();
}

void JobTrainer::EndIfLost(const absl::Status& status) const {
  if (accelerator_ != nullptr && accelerator_->IsLost(status))
    EndProcess("accelerator.lost", status);
}

void JobTrainer::ShowSteps() {
  board_.SetSteps(job_->state().applied_step(), job_->state().complete_step());
}

void JobTrainer::Notify(const v1::Notice& notice) {
  v1::Notice complete = notice;
  complete.set_generation(assignment_.generation);
  on_notice_(complete);
}

RunOutcome JobTrainer::Run() {
  RM_CHECK(job_ != nullptr, "Run follows a successful Prepare");
  const absl::StatusOr<GenerationRun::End> end =
      CatchExhaustion(assignment_.rank, [this] { return RunGeneration(); });
  EndIfLost(end.status());
  ShowSteps();
  board_.EnterPhase(TrainPhase::kHalted);
  LogCounters(metrics_);
  return MakeOutcome(end);
}

absl::StatusOr<GenerationRun::End> JobTrainer::RunGeneration() {
  const std::shared_ptr<const CancelToken> cancel = live_.cancel();
  blamed_rank_ = -1;
  RETURN_IF_ERROR(cancel->status());
  if (accelerator_ != nullptr) RETURN_IF_ERROR(accelerator_->Enter());
  board_.EnterPhase(TrainPhase::kConnect);
  absl::StatusOr<std::unique_ptr<GradientExchange>> exchange =
      GradientExchange::Connect(
          {.assignment = assignment_,
           .state = job_->state(),
           .host = HoldsShards(assignment_) ? host_.get() : nullptr,
           .listener = listener_,
           .cancel = *cancel,
           .board = board_,
           .counters = counters_,
           .clock = clock_,
           .trace = trace_});
  blamed_rank_ = BlamedPeer(exchange.status());
  RETURN_IF_ERROR(exchange.status());
  exchange_ = *std::move(exchange);
  const absl::Cleanup end_generation = [this] {
    live_.Unexpose();
    exchange_.reset();
  };
  RETURN_IF_ERROR(Expose());
  absl::StatusOr<GenerationRun::End> end = Train(*cancel);
  if (!end.ok()) {
    GenerationFailure failure = exchange_->End(end.status());
    blamed_rank_ = failure.blamed_rank;
    end = std::move(failure.status);
  }
  LogMostAwaited(exchange_->sync());
  LogAllReduces(board_.progress().figures);
  counters_.generations.Increment();
  counters_.AddWire(exchange_->communicator().counters());
  return end;
}

absl::Status JobTrainer::Expose() {
  RETURN_IF_ERROR(live_.Expose(exchange_->communicator(), &job_->prefetcher()));
  ServerGeneration* const servers = exchange_->servers();
  if (servers == nullptr) return absl::OkStatus();
  return live_.ExposeServers([servers] { return servers->progress(); },
                             servers->host_cancel());
}

absl::StatusOr<GenerationRun::End> JobTrainer::Train(
    const CancelToken& cancel) {
  Communicator& communicator = exchange_->communicator();
  ServerGeneration* const servers = exchange_->servers();
  if (servers != nullptr) {
    board_.EnterPhase(TrainPhase::kTransfer);
    RETURN_IF_ERROR(servers->Begin([&] {
      const absl::Status started = StartFromFiles(communicator, cancel);
      board_.EnterPhase(TrainPhase::kTransfer);
      return started;
    }));
  } else {
    const absl::Status taken = TakeOverState(communicator, cancel);
    if (IsStateGivenUp(taken)) return GiveStateUp(taken);
    RETURN_IF_ERROR(taken);
    RETURN_IF_ERROR(StartFromFiles(communicator, cancel));
    RETURN_IF_ERROR(AgreeOnBeginning(communicator));
  }
  ShowSteps();
  RETURN_IF_ERROR(job_->state().SendToDevice());
  board_.EnterPhase(TrainPhase::kStep);
  RETURN_IF_ERROR(job_->files().BeginGeneration(
      assignment_.generation, assignment_.local_rank, communicator,
      assignment_.collective_timeout));
  const absl::Cleanup end_generation = [this] {
    job_->files().EndGeneration();
  };
  GenerationRun run(
      assignment_.collective_timeout,
      {job_->state(), communicator, exchange_->sync(), job_->prefetcher(),
       board_, wishes_, cancel, clock_, trace_, counters_, job_->files(),
       job_->sampler(), PeakFlopsOfJob(), NoStepOf(assignment_),
       assignment_.is_newcomer,
       [this](const v1::Notice& notice) { Notify(notice); }});
  ASSIGN_OR_RETURN(const GenerationRun::End end, run.Run());
  RETURN_IF_ERROR(job_->state().FetchToHost());  // for the outcome
  if (servers != nullptr) RETURN_IF_ERROR(servers->AwaitHost());
  return end;
}

double JobTrainer::PeakFlopsOfJob() {
  if (accelerator_ != nullptr)
    return accelerator_->PeakFlops(job_->config().precision);
  if (peak_flops_.float32 == 0) peak_flops_ = MeasurePeakFlops(clock_);
  // If bfloat16 is computed by float32 instructions, their peak applies.
  const double peak = job_->config().precision == Precision::kBFloat16
                          ? std::max(peak_flops_.float32, peak_flops_.bfloat16)
                          : peak_flops_.float32;
  return peak * job_->state().threads();
}

RunOutcome JobTrainer::MakeOutcome(
    const absl::StatusOr<GenerationRun::End>& end) const {
  RunOutcome outcome;
  outcome.applied_step = job_->state().applied_step();
  outcome.complete_step = job_->state().complete_step();
  if (end.ok()) {
    outcome.kind = KindOf(*end);
    outcome.parameters_hash = job_->state().ParametersHash();
    return outcome;
  }
  return FailedOutcome(end.status(),
                       {.applied_step = outcome.applied_step,
                        .complete_step = outcome.complete_step,
                        .members = MembersOf(assignment_),
                        .blamed_rank = blamed_rank_,
                        .is_cancelled = live_.cancel()->is_cancelled()});
}

void JobTrainer::Abort(int64_t generation, std::string_view why) {
  if (!FAIL_POINT("train.abort").ok()) return;  // it is lost
  live_.Abort(generation, why);
}

void JobTrainer::Release() {
  job_.reset();
  if (host_ != nullptr) host_->Release();
  board_.Clear();
}

TrainProgress JobTrainer::progress() const {
  TrainProgress progress = board_.progress();
  const CollectiveProgress communication = live_.communication();
  progress.collective_sequence = communication.completed;
  progress.waiting_for_rank = communication.waiting_for_rank;
  if (host_ == nullptr) return progress;
  progress.held_shards = host_->held_shards();
  SetStaleness(host_->staleness(), progress.totals);
  return progress;
}

}  // namespace

std::unique_ptr<JobRunner> MakeJobTrainer(
    Clock& clock, const Listener& listener, int threads,
    std::unique_ptr<ShardHost> host, std::unique_ptr<Accelerator> accelerator) {
  return std::make_unique<JobTrainer>(clock, listener, threads, std::move(host),
                                      std::move(accelerator));
}

}  // namespace ringmaster
