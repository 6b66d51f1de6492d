#include "worker/parameter_server/shard_runner.h"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/job/job_spec.h"
#include "common/logging/logging.h"
#include "common/parameter_server/update_rules.h"
#include "common/status/status_macros.h"
#include "common/sync/mutex.h"
#include "common/transport/blamed_peer.h"
#include "common/transport/connect_peers.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/member/assignment_mesh.h"
#include "worker/member/catch_exhaustion.h"
#include "worker/member/collective_config.h"
#include "worker/member/progress_board.h"
#include "worker/member/run_outcome.h"
#include "worker/member/shard_links.h"
#include "worker/parameter_server/wait_shares.h"
#include "worker/train/exchange/live_generation.h"

namespace ringmaster {
namespace {

class ShardRunner final : public JobRunner {
 public:
  ShardRunner(Clock& clock, const Listener& listener,
              std::unique_ptr<ShardHost> host,
              std::unique_ptr<ParameterEndpoint> endpoint)
      : clock_(clock),
        listener_(listener),
        host_(std::move(host)),
        endpoint_(std::move(endpoint)) {}

  absl::StatusOr<PlanAgreement> Prepare(
      const v1::JobSpec& spec, const RankAssignment& assignment) override;
  RunOutcome Run() override;
  void Abort(int64_t generation, std::string_view why) override {
    if (!FAIL_POINT("train.abort").ok()) return;  // it is lost
    live_.Abort(generation, why);
  }
  // The workers agree on a stop; every member gets the request.
  void RequestStop() override {}
  void RequestDrain() override { host_->RequestDrain(); }
  // It has nothing to tell.
  void SetNoticeCallback(std::function<void(const v1::Notice&)>) override {}
  void SetAdvanceCallback(std::function<void(int64_t)> on_advance) override {
    board_.SetAdvanceCallback(std::move(on_advance));
  }
  void Release() override {
    host_->Release();
    board_.Clear();
  }
  TrainProgress progress() const override;
  const Trace& trace() const override { return trace_; }

 private:
  [[nodiscard]] absl::Status TryPrepare(const v1::JobSpec& spec,
                                        const RankAssignment& assignment);
  [[nodiscard]] absl::StatusOr<DoneKind> Serve();
  [[nodiscard]] RunOutcome MakeOutcome(
      const absl::StatusOr<DoneKind>& end) const;
  // Sets the rank that the host has lately waited for most.
  void TakeWaits(v1::TrainingFigures& figures) const EXCLUDES(mutex_);

  Clock& clock_;
  const Listener& listener_;
  const std::unique_ptr<ShardHost> host_;
  const std::unique_ptr<ParameterEndpoint> endpoint_;  // after what it serves
  Trace trace_;                                        // stays empty
  ProgressBoard board_;

  // Only on the training thread.
  RankAssignment assignment_;
  Transport best_transport_ = Transport::kSharedMemory;
  int lanes_ = 1;
  int blamed_rank_ = -1;

  LiveGeneration live_;

  mutable Mutex mutex_;
  int members_ GUARDED_BY(mutex_) = 0;
  mutable WaitShares waits_ GUARDED_BY(mutex_);  // of the generation
};

absl::StatusOr<PlanAgreement> ShardRunner::Prepare(
    const v1::JobSpec& spec, const RankAssignment& assignment) {
  live_.Begin(assignment.generation);
  board_.EnterPhase(TrainPhase::kPrepare);
  RETURN_IF_ERROR(CatchExhaustion(
      assignment.rank, [&] { return TryPrepare(spec, assignment); }));
  // The server learns the plan from the workers, which agree among themselves.
  PlanAgreement agreement;
  agreement.summary =
      absl::StrCat("parameter server of ", assignment.world_size, " workers, ",
                   assignment.shard_placements.shards.size(), " shards");
  return agreement;
}

absl::Status ShardRunner::TryPrepare(const v1::JobSpec& spec,
                                     const RankAssignment& assignment) {
  RETURN_IF_ERROR(FAIL_POINT("train.prepare"));
  assignment_ = assignment;
  if (!spec.train().has_parameter_server()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", assignment.rank,
        ": the job has no parameter servers, and this process is one"));
  }
  ASSIGN_OR_RETURN(const v1::TrainProgram program,
                   DefaultProgram(spec.train()));
  best_transport_ = CollectiveConfigOf(program.collective()).best_transport;
  lanes_ = LanesOf(program);
  const absl::Status prepared =
      host_->Prepare(program, HostAssignmentOf(assignment));
  board_.SetSteps(assignment.resume_step, assignment.resume_step);
  RETURN_IF_ERROR(prepared);
  board_.BeginGeneration(assignment.generation, program.steps());
  MutexLock lock(mutex_);
  members_ = MembersOf(assignment);
  waits_ = WaitShares();
  return absl::OkStatus();
}

RunOutcome ShardRunner::Run() {
  const absl::StatusOr<DoneKind> end =
      CatchExhaustion(assignment_.rank, [this] { return Serve(); });
  board_.SetSteps(host_->complete_step(), host_->complete_step());
  board_.EnterPhase(TrainPhase::kHalted);
  return MakeOutcome(end);
}

absl::StatusOr<DoneKind> ShardRunner::Serve() {
  const std::shared_ptr<const CancelToken> cancel = live_.cancel();
  blamed_rank_ = -1;
  RETURN_IF_ERROR(cancel->status());
  board_.EnterPhase(TrainPhase::kConnect);
  ASSIGN_OR_RETURN(const ShardLinkPlan plan,
                   PlanShardLinks(assignment_, lanes_,
                                  {.parameters = host_->shared_parameters()}));
  absl::StatusOr<std::vector<std::unique_ptr<Channel>>> channels = ConnectPeers(
      listener_, PeersConfigOf(assignment_, best_transport_, clock_),
      plan.connections, cancel.get());
  blamed_rank_ = BlamedPeer(channels.status());
  RETURN_IF_ERROR(channels.status());
  ASSIGN_OR_RETURN(ShardLinks links, AssembleShardLinks(assignment_.rank, plan,
                                                        *std::move(channels)));
  LogEvent(LogLevel::kInfo, "shards.connected",
           {{"workers", assignment_.world_size},
            {"connections", plan.connections.size()},
            {"lanes", plan.lanes.size()}});
  // Until the host takes pushes; see progress().
  board_.EnterPhase(TrainPhase::kTransfer);
  absl::StatusOr<DoneKind> end = host_->Run(std::move(links.host), *cancel);
  if (!end.ok()) blamed_rank_ = host_->blamed_rank();
  return end;
}

RunOutcome ShardRunner::MakeOutcome(const absl::StatusOr<DoneKind>& end) const {
  const int64_t step = host_->complete_step();
  RunOutcome outcome;
  if (!end.ok()) {
    outcome = FailedOutcome(end.status(),
                            {.applied_step = step,
                             .complete_step = step,
                             .members = MembersOf(assignment_),
                             .blamed_rank = blamed_rank_,
                             .is_cancelled = live_.cancel()->is_cancelled()});
  } else {
    outcome.kind = KindOf(*end);
    outcome.applied_step = outcome.complete_step = step;
  }
  return outcome;
}

TrainProgress ShardRunner::progress() const {
  TrainProgress progress = board_.progress();
  progress.collective_sequence = host_->taken_messages();
  SetStaleness(host_->staleness(), progress.totals);
  progress.held_shards = host_->held_shards();
  if (progress.phase == TrainPhase::kTransfer) {
    if (host_->takes_pushes()) progress.phase = TrainPhase::kStep;
    progress.applied_step = progress.complete_step = host_->complete_step();
    progress.waiting_for_rank = host_->waiting_for_rank();
    TakeWaits(progress.figures);
  }
  // The bytes that it has sent and received are those of these steps.
  progress.totals.set_steps(
      std::max<int64_t>(0, progress.applied_step - host_->begin_step()));
  return progress;
}

void ShardRunner::TakeWaits(v1::TrainingFigures& figures) const {
  MutexLock lock(mutex_);
  std::vector<absl::Duration> waited;
  for (int rank = 0; rank < members_; ++rank)
    waited.push_back(host_->WaitedFor(rank));
  waits_.Note(clock_.Now(), waited);
  const WaitShares::Most most = waits_.most();
  figures.set_awaited_rank(most.rank);
  figures.set_awaited_ratio(most.share);
}

}  // namespace

std::unique_ptr<JobRunner> MakeShardRunner(
    Clock& clock, const Listener& listener, std::unique_ptr<ShardHost> host,
    std::unique_ptr<ParameterEndpoint> endpoint) {
  return std::make_unique<ShardRunner>(clock, listener, std::move(host),
                                       std::move(endpoint));
}

}  // namespace ringmaster
