#include "worker/train/job_trainer.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/logging/logging.h"
#include "common/metrics/metrics.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "common/transport/cancel_token.h"
#include "common/transport/establish.h"
#include "common/transport/tcp.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/collective/connect_mesh.h"
#include "worker/figures/peak_flops.h"
#include "worker/train/all_reduce_forecast.h"
#include "worker/train/all_reduce_sync.h"
#include "worker/train/assignment_mesh.h"
#include "worker/train/catch_exhaustion.h"
#include "worker/train/checkpoint_start.h"
#include "worker/train/collective_config.h"
#include "worker/train/generation_log.h"
#include "worker/train/generation_run.h"
#include "worker/train/held_job.h"
#include "worker/train/live_generation.h"
#include "worker/train/progress_board.h"
#include "worker/train/run_outcome.h"
#include "worker/train/server_generation.h"
#include "worker/train/shard_links.h"
#include "worker/train/state_copy.h"
#include "worker/train/train_counters.h"

namespace ringmaster {
namespace {

class JobTrainer final : public Trainer {
 public:
  JobTrainer(Clock& clock, const Listener& listener, int threads,
             std::unique_ptr<ShardHost> host)
      : clock_(clock),
        listener_(listener),
        threads_(threads),
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
  [[nodiscard]] absl::StatusOr<PlanAgreement> TryPrepare(
      const v1::TrainProgram& program, const RankAssignment& assignment);
  [[nodiscard]] absl::Status MakeJob(const v1::TrainProgram& program,
                                     const RankAssignment& assignment);
  [[nodiscard]] absl::Status SettleState(const v1::TrainProgram& program,
                                         const RankAssignment& assignment);
  [[nodiscard]] absl::Status TakeOverState(Communicator& communicator,
                                           const CancelToken& cancel);
  [[nodiscard]] absl::Status StartFromFiles(Communicator& communicator,
                                            const CancelToken& cancel);
  void Notify(const TrainNotice& notice);
  // On the board: where the state is.
  void ShowSteps();
  [[nodiscard]] absl::StatusOr<GenerationRun::End> RunGeneration();
  [[nodiscard]] absl::Status PrepareShards(const v1::TrainProgram& program);
  // The communicator, and channels for shards in the order of `shard_links`.
  [[nodiscard]] absl::StatusOr<ConnectedMesh> Connect(
      const ShardLinkPlan& shard_links, const CancelToken& cancel);
  // How the ranks of this generation bring their gradients together.
  [[nodiscard]] absl::Status MakeSync(const ShardLinkPlan& shard_links,
                                      ConnectedMesh& mesh,
                                      const CancelToken& cancel);
  // How this generation's ranks choose algorithms; shows what is expected of it.
  [[nodiscard]] AlgorithmPolicy Policy(const Topology& topology);
  [[nodiscard]] absl::StatusOr<GenerationRun::End> Train(
      Communicator& communicator, const CancelToken& cancel);
  // Of this process's threads, at the job's precision.
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
  std::function<void(const TrainNotice&)> on_notice_ = [](const TrainNotice&) {
  };

  // Only on the training thread.
  RankAssignment assignment_;
  std::unique_ptr<HeldJob> job_;     // null: no job
  PeakFlops peak_flops_;             // measured once
  std::unique_ptr<ShardHost> host_;  // null: this process holds no shards
  // Of the generation under way: one of them.
  std::unique_ptr<AllReduceSync> all_reduce_;
  std::unique_ptr<ServerGeneration> servers_;
  // The peer that this generation failed on; -1: unknown.
  int blamed_rank_ = -1;

  LiveGeneration live_;
};

absl::StatusOr<PlanAgreement> JobTrainer::Prepare(
    const v1::JobSpec& spec, const RankAssignment& assignment) {
  // What was wished for ended with the generation that it was wished for in.
  wishes_.stop.store(false, std::memory_order_relaxed);
  wishes_.drain.store(false, std::memory_order_relaxed);
  live_.Begin(assignment.generation);
  board_.EnterPhase(TrainPhase::kPrepare);
  return CatchExhaustion(assignment.rank,
                         [&] { return TryPrepare(spec.train(), assignment); });
}

absl::StatusOr<PlanAgreement> JobTrainer::TryPrepare(
    const v1::TrainProgram& program, const RankAssignment& assignment) {
  RETURN_IF_ERROR(FAIL_POINT("train.prepare"));
  assignment_ = assignment;  // notices go by it
  RETURN_IF_ERROR(SettleState(program, assignment));
  RETURN_IF_ERROR(PrepareShards(program));
  RETURN_IF_ERROR(job_->ReserveBatch(assignment));
  RETURN_IF_ERROR(
      job_->StartPrefetcher(assignment, assignment.resume_step + 1));
  board_.BeginGeneration(
      assignment.generation, job_->config().steps,
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
  absl::Status resumed;
  if (job_->state().has_servers()) {
    job_->state().FollowServers(assignment.resume_step);
  } else if (!assignment.is_newcomer) {
    resumed = job_->state().ResumeAt(assignment.resume_step);
  }
  // Before anything else can fail: a halt is answered with these.
  ShowSteps();
  RETURN_IF_ERROR(resumed);
  // Checkpoints of steps that are to be made anew are written anew.
  if (job_->state().applied_step() == 0) job_->files().StartsFrom(0);
  return absl::OkStatus();
}

absl::Status JobTrainer::PrepareShards(const v1::TrainProgram& program) {
  RETURN_IF_ERROR(CheckShards(job_->state(), assignment_));
  if (!HoldsShards(assignment_)) return absl::OkStatus();
  if (host_ == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", assignment_.rank, " is to hold shards, which it cannot"));
  }
  return host_->Prepare(program, HostAssignmentOf(assignment_));
}

absl::Status JobTrainer::MakeJob(const v1::TrainProgram& program,
                                 const RankAssignment& assignment) {
  trace_.Clear();  // kept until now, so that an ended job can be looked at
  const std::shared_ptr<const CancelToken> cancel = live_.cancel();
  ASSIGN_OR_RETURN(
      job_,
      HeldJob::Create(
          program, assignment, *cancel,
          {.threads = threads_,
           .board = board_,
           .on_notice = [this](const TrainNotice& notice) { Notify(notice); },
           .clock = clock_}));
  const int64_t skipped = job_->state().dataset().skipped_samples();
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

absl::Status JobTrainer::TakeOverState(Communicator& communicator,
                                       const CancelToken& cancel) {
  if (assignment_.state_source_rank < 0) return absl::OkStatus();
  board_.EnterPhase(TrainPhase::kTransfer);
  return CopyState(job_->state(), communicator,
                   {.source_rank = assignment_.state_source_rank,
                    .is_newcomer = assignment_.is_newcomer,
                    .resume_step = assignment_.resume_step,
                    .wait_timeout = assignment_.collective_timeout},
                   clock_, cancel);
}

absl::Status JobTrainer::StartFromFiles(Communicator& communicator,
                                        const CancelToken& cancel) {
  if (job_->state().applied_step() > 0 ||
      job_->config().checkpoint.directory.empty())
    return absl::OkStatus();
  if (!job_->config().checkpoint.resume) return absl::OkStatus();
  board_.EnterPhase(TrainPhase::kCheckpoint);
  ASSIGN_OR_RETURN(const CheckpointStart start,
                   StartFromCheckpoint(job_->state(), communicator,
                                       assignment_.collective_timeout, clock_,
                                       cancel, board_.disk()));
  // Ranks of one host see the same files: one of them is enough to remark.
  if (!start.path.empty() ||
      (!start.remark.empty() && assignment_.local_rank == 0)) {
    TrainNotice notice;
    notice.kind = TrainNotice::Kind::kCheckpointLoaded;
    notice.step = start.step;
    notice.message = DescribeStart(start);
    Notify(notice);
  }
  if (start.step == 0) return absl::OkStatus();
  job_->files().StartsFrom(start.step);
  return job_->StartPrefetcher(assignment_, start.step + 1);
}

void JobTrainer::ShowSteps() {
  board_.SetSteps(job_->state().applied_step(), job_->state().complete_step());
}

void JobTrainer::Notify(const TrainNotice& notice) {
  TrainNotice complete = notice;
  complete.generation = assignment_.generation;
  on_notice_(complete);
}

RunOutcome JobTrainer::Run() {
  RM_CHECK(job_ != nullptr, "Run follows a successful Prepare");
  const absl::StatusOr<GenerationRun::End> end =
      CatchExhaustion(assignment_.rank, [this] { return RunGeneration(); });
  ShowSteps();
  board_.EnterPhase(TrainPhase::kHalted);
  LogCounters(metrics_);
  return MakeOutcome(end);
}

absl::StatusOr<GenerationRun::End> JobTrainer::RunGeneration() {
  const std::shared_ptr<const CancelToken> cancel = live_.cancel();
  blamed_rank_ = -1;
  RETURN_IF_ERROR(cancel->status());
  board_.EnterPhase(TrainPhase::kConnect);
  ASSIGN_OR_RETURN(
      const ShardLinkPlan shard_links,
      PlanShardLinks(
          assignment_,
          {.gradients = job_->state().shared_gradients(),
           .parameters = HoldsShards(assignment_) ? host_->shared_parameters()
                                                  : nullptr}));
  absl::StatusOr<ConnectedMesh> connected = Connect(shard_links, *cancel);
  blamed_rank_ = BlamedPeer(connected.status());
  RETURN_IF_ERROR(connected.status());
  Communicator* const communicator = connected->communicator.get();
  LogTransports(*communicator);
  RETURN_IF_ERROR(live_.Expose(*communicator, &job_->prefetcher()));
  const absl::Cleanup end_generation = [this] {
    live_.Unexpose();
    servers_.reset();
    all_reduce_.reset();
  };
  RETURN_IF_ERROR(MakeSync(shard_links, *connected, *cancel));
  absl::StatusOr<GenerationRun::End> end = Train(*communicator, *cancel);
  if (!end.ok()) {
    blamed_rank_ = communicator->progress().blamed_rank;
    const std::string why(end.status().message());
    if (servers_ != nullptr) {
      const int blamed_for_shards = servers_->EndAndBlame(why);
      if (blamed_rank_ < 0) blamed_rank_ = blamed_for_shards;
    }
    // Whatever it was, peers must not wait for this rank: they see the
    // connection close, and the reason is ours to tell.
    communicator->Abort(why);
  }
  LogMostAwaited(*communicator);
  LogAllReduces(board_.progress().figures);
  counters_.generations.Increment();
  counters_.AddWire(communicator->counters());
  return end;
}

absl::Status JobTrainer::MakeSync(const ShardLinkPlan& shard_links,
                                  ConnectedMesh& mesh,
                                  const CancelToken& cancel) {
  if (!job_->state().has_servers()) {
    all_reduce_ = std::make_unique<AllReduceSync>(
        assignment_.generation, assignment_.collective_timeout, job_->state(),
        *mesh.communicator, clock_, trace_);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(ShardLinks links,
                   AssembleShardLinks(assignment_.rank, shard_links,
                                      std::move(mesh.others)));
  ASSIGN_OR_RETURN(
      servers_, ServerGeneration::Create(
                    {.assignment = assignment_,
                     .state = job_->state(),
                     .communicator = *mesh.communicator,
                     .host = HoldsShards(assignment_) ? host_.get() : nullptr,
                     .cancel = cancel,
                     .clock = clock_,
                     .trace = trace_},
                    std::move(links)));
  return live_.ExposeServers(servers_->sync(), servers_->host_cancel());
}

absl::StatusOr<GenerationRun::End> JobTrainer::Train(
    Communicator& communicator, const CancelToken& cancel) {
  if (servers_ != nullptr) {
    RETURN_IF_ERROR(
        servers_->Begin([&] { return StartFromFiles(communicator, cancel); }));
  } else {
    RETURN_IF_ERROR(TakeOverState(communicator, cancel));
    RETURN_IF_ERROR(StartFromFiles(communicator, cancel));
  }
  ShowSteps();
  board_.EnterPhase(TrainPhase::kStep);
  RETURN_IF_ERROR(job_->files().BeginGeneration(
      assignment_.generation, assignment_.local_rank, communicator,
      assignment_.collective_timeout));
  const absl::Cleanup end_generation = [this] {
    job_->files().EndGeneration();
  };
  ParameterSync& sync = servers_ != nullptr
                            ? static_cast<ParameterSync&>(servers_->sync())
                            : *all_reduce_;
  GenerationRun run(assignment_.collective_timeout,
                    {job_->state(), communicator, sync, job_->prefetcher(),
                     board_, wishes_, cancel, clock_, trace_, counters_,
                     job_->files(), job_->sampler(), PeakFlopsOfJob(),
                     [this](const TrainNotice& notice) { Notify(notice); }});
  ASSIGN_OR_RETURN(const GenerationRun::End end, run.Run());
  if (servers_ != nullptr) RETURN_IF_ERROR(servers_->AwaitHost());
  return end;
}

double JobTrainer::PeakFlopsOfJob() {
  if (peak_flops_.float32 == 0) peak_flops_ = MeasurePeakFlops(clock_);
  // Where bfloat16 is computed by float32 instructions, that is the peak.
  const double peak = job_->config().precision == Precision::kBFloat16
                          ? std::max(peak_flops_.float32, peak_flops_.bfloat16)
                          : peak_flops_.float32;
  return peak * job_->state().threads();
}

absl::StatusOr<ConnectedMesh> JobTrainer::Connect(
    const ShardLinkPlan& shard_links, const CancelToken& cancel) {
  MeshConfig mesh =
      MeshOf(assignment_, job_->config().collective, clock_, trace_);
  mesh.arena = job_->state().shared_gradients();
  mesh.policy = Policy(mesh.topology);
  mesh.on_refused = [this, log = mesh.on_refused](const absl::Status& why) {
    counters_.refused_connections.Increment();
    log(why);
  };
  return ConnectMeshAndOthers(listener_, mesh, shard_links.connections,
                              &cancel);
}

AlgorithmPolicy JobTrainer::Policy(const Topology& topology) {
  const CollectiveConfig& config = job_->config().collective;
  AlgorithmPolicy policy = PolicyOf(config, assignment_.costs);
  const AllReduceForecast forecast = ForecastAllReduces(
      job_->state().plan().buckets(), config.wire, topology, policy);
  board_.SetAllReduces(forecast.duration, forecast.algorithms);
  const std::string remark = UnusableRemark(config, topology);
  if (!remark.empty()) {
    LogEvent(LogLevel::kWarning, "collective.algorithm_unusable",
             {{"message", remark}});
  }
  return policy;
}

RunOutcome JobTrainer::MakeOutcome(
    const absl::StatusOr<GenerationRun::End>& end) const {
  RunOutcome outcome;
  outcome.applied_step = job_->state().applied_step();
  outcome.complete_step = job_->state().complete_step();
  if (host_ != nullptr) outcome.held_shards = host_->held_shards();
  if (end.ok()) {
    outcome.kind = KindOf(*end);
    outcome.parameters_hash = job_->state().ParametersHash();
    return outcome;
  }
  RunOutcome failed = FailedOutcome(
      end.status(), {.applied_step = outcome.applied_step,
                     .complete_step = outcome.complete_step,
                     .members = MembersOf(assignment_),
                     .blamed_rank = blamed_rank_,
                     .is_cancelled = live_.cancel()->is_cancelled()});
  failed.held_shards = outcome.held_shards;
  return failed;
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
  return progress;
}

}  // namespace

std::unique_ptr<Trainer> MakeJobTrainer(Clock& clock, const Listener& listener,
                                        int threads,
                                        std::unique_ptr<ShardHost> host) {
  return std::make_unique<JobTrainer>(clock, listener, threads,
                                      std::move(host));
}

}  // namespace ringmaster
