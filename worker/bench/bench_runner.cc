#include "worker/bench/bench_runner.h"

#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/job/field_rules.h"
#include "common/job/job_spec.h"
#include "common/logging/logging.h"
#include "common/machine/memory_limits.h"
#include "common/plan/topology.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "common/sync/mutex.h"
#include "common/transport/establish.h"
#include "common/transport/tcp.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/bench/all_reduce_rank.h"
#include "worker/bench/bench_buffer.h"
#include "worker/bench/bench_program.h"
#include "worker/bench/memory_needs.h"
#include "worker/collective/connect_mesh.h"
#include "worker/collective/cost_model.h"
#include "worker/member/assignment_mesh.h"
#include "worker/member/catch_exhaustion.h"
#include "worker/member/progress_board.h"
#include "worker/member/run_outcome.h"
#include "worker/train/exchange/live_generation.h"

namespace ringmaster {
namespace {

class BenchRunner final : public JobRunner {
 public:
  BenchRunner(Clock& clock, const Listener& listener, int64_t copy_bytes)
      : clock_(clock), listener_(listener), copy_bytes_(copy_bytes) {}

  absl::StatusOr<PlanAgreement> Prepare(
      const v1::JobSpec& spec, const RankAssignment& assignment) override;
  RunOutcome Run() override;
  void Abort(int64_t generation, std::string_view why) override {
    live_.Abort(generation, why);
  }
  void RequestStop() override { Wish(BenchWish::kStop); }
  void RequestDrain() override { Wish(BenchWish::kDrain); }
  // It has nothing to tell.
  void SetNoticeCallback(std::function<void(const v1::Notice&)>) override {}
  void SetAdvanceCallback(std::function<void(int64_t)> on_advance) override {
    on_advance_ = on_advance;
    board_.SetAdvanceCallback(std::move(on_advance));
  }
  void Release() override;
  TrainProgress progress() const override;
  const Trace& trace() const override { return trace_; }

 private:
  // A stop is more than a drain.
  void Wish(BenchWish wish);
  [[nodiscard]] absl::StatusOr<PlanAgreement> TryPrepare(
      const v1::JobSpec& spec, const RankAssignment& assignment);
  [[nodiscard]] absl::StatusOr<AllReduceRankEnd> RunGeneration();
  [[nodiscard]] absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      const BenchBuffer& buffer, const CancelToken& cancel,
      std::string& fallback);
  [[nodiscard]] absl::StatusOr<AllReduceRankEnd> Measure(
      Communicator& communicator, const BenchBuffer& buffer,
      const CancelToken& cancel, const std::string& fallback);
  [[nodiscard]] RunOutcome MakeOutcome(
      const absl::StatusOr<AllReduceRankEnd>& end) const;
  // Shows `figures`, which are new.
  void Publish(const AllReduceBenchFigures& figures);
  // All sizes are measured, or none is.
  void SetDone(bool is_done);
  Transport BestTransport() const {
    return options_.transport.value_or(Transport::kSharedMemory);
  }
  int64_t total_steps() const {
    return static_cast<int64_t>(options_.sizes.size());
  }

  Clock& clock_;
  const Listener& listener_;
  const int64_t copy_bytes_;
  Trace trace_;
  ProgressBoard board_;
  std::atomic<int> wish_ = 0;
  std::function<void(int64_t)> on_advance_ = [](int64_t) {};

  // Only on the training thread.
  RankAssignment assignment_;
  AllReduceBenchOptions options_;
  AlgorithmPolicy policy_;
  bool is_done_ = false;
  int blamed_rank_ = -1;  // the peer that this generation failed on

  LiveGeneration live_;

  mutable Mutex mutex_;
  // All ranks know them; rank 0 shows them, and may be another worker by the
  // end.
  std::shared_ptr<const AllReduceBenchFigures> figures_ GUARDED_BY(mutex_);
  bool is_first_ GUARDED_BY(mutex_) = false;  // of the ranks
};

void BenchRunner::Wish(BenchWish wish) {
  int before = wish_.load();
  while (before < static_cast<int>(wish) &&
         !wish_.compare_exchange_weak(before, static_cast<int>(wish))) {
  }
}

absl::StatusOr<PlanAgreement> BenchRunner::Prepare(
    const v1::JobSpec& spec, const RankAssignment& assignment) {
  // A wish ends with the generation that it was made in.
  wish_.store(0);
  live_.Begin(assignment.generation);
  board_.EnterPhase(TrainPhase::kPrepare);
  return CatchExhaustion(assignment.rank,
                         [&] { return TryPrepare(spec, assignment); });
}

absl::StatusOr<PlanAgreement> BenchRunner::TryPrepare(
    const v1::JobSpec& spec, const RankAssignment& assignment) {
  assignment_ = assignment;
  ASSIGN_OR_RETURN(const v1::BenchProgram program,
                   DefaultProgram(spec.bench()));
  ASSIGN_OR_RETURN(options_, ParseBenchProgram(program, assignment.world_size));
  options_.copy_bytes = copy_bytes_;
  if (assignment.resume_step != 0 && assignment.resume_step != total_steps()) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", assignment.rank, " is to go on after step ",
                     assignment.resume_step,
                     ", but a benchmark begins with the first size"));
  }
  // A worker that joins when all sizes are measured has nothing to do, and
  // nothing to show.
  SetDone(assignment.resume_step != 0);
  {
    MutexLock lock(mutex_);
    is_first_ = assignment.rank == 0;
  }
  policy_.costs = CostsOver(
      options_.transport.value_or(Transport::kSharedMemory), assignment.costs);
  const Topology topology = Topology::OfHosts(assignment.ranks_per_host);
  RETURN_IF_ERROR(Annotate(CheckAllReduceBench(options_, topology), "bench"));
  // Now, while nobody has touched any of it yet.
  RETURN_IF_ERROR(CheckBenchMemory(assignment.rank, options_, topology, policy_,
                                   AvailableMemoryBytes()));
  board_.BeginGeneration(assignment.generation, total_steps());
  PlanAgreement agreement;
  const std::string plan =
      absl::StrCat(AgreedText(program), " between ", assignment.world_size);
  agreement.plan_hash = XXH64(plan.data(), plan.size(), 0);
  agreement.summary =
      absl::StrCat("sizes=", total_steps(), " ranks=", assignment.world_size,
                   " type=", std::string(DTypeName(options_.dtype)));
  return agreement;
}

void BenchRunner::SetDone(bool is_done) {
  is_done_ = is_done;
  const int64_t step = is_done ? total_steps() : 0;
  board_.SetSteps(step, step);
  if (is_done) return;
  MutexLock lock(mutex_);
  figures_ = nullptr;
}

RunOutcome BenchRunner::Run() {
  const absl::StatusOr<AllReduceRankEnd> end =
      CatchExhaustion(assignment_.rank, [this] { return RunGeneration(); });
  if (end.ok() && end->wish == BenchWish::kGoOn) SetDone(true);
  board_.EnterPhase(TrainPhase::kHalted);
  return MakeOutcome(end);
}

absl::StatusOr<AllReduceRankEnd> BenchRunner::RunGeneration() {
  if (is_done_) return AllReduceRankEnd();
  const std::shared_ptr<const CancelToken> cancel = live_.cancel();
  blamed_rank_ = -1;
  RETURN_IF_ERROR(cancel->status());
  board_.EnterPhase(TrainPhase::kConnect);
  std::string fallback;
  // Before the communicator, which lets peers read it.
  ASSIGN_OR_RETURN(
      const std::unique_ptr<BenchBuffer> buffer,
      BenchBuffer::Allocate(
          *std::max_element(options_.sizes.begin(), options_.sizes.end()),
          /*is_shared=*/assignment_.local_world_size > 1 &&
              BestTransport() == Transport::kSharedMemory));
  const absl::StatusOr<std::unique_ptr<Communicator>> connected =
      Connect(*buffer, *cancel, fallback);
  blamed_rank_ = BlamedPeer(connected.status());
  RETURN_IF_ERROR(connected.status());
  Communicator& communicator = **connected;
  RETURN_IF_ERROR(live_.Expose(communicator, /*prefetcher=*/nullptr));
  const absl::Cleanup unexpose = [this] { live_.Unexpose(); };
  board_.EnterPhase(TrainPhase::kMeasure);
  absl::StatusOr<AllReduceRankEnd> end =
      Measure(communicator, *buffer, *cancel, fallback);
  if (!end.ok()) {
    blamed_rank_ = communicator.progress().blamed_rank;
    // Peers must not wait for this rank.
    communicator.Abort(std::string(end.status().message()));
  }
  return end;
}

absl::StatusOr<std::unique_ptr<Communicator>> BenchRunner::Connect(
    const BenchBuffer& buffer, const CancelToken& cancel,
    std::string& fallback) {
  MeshConfig mesh = MeshOf(
      assignment_,
      {.best_transport = BestTransport(), .connections = options_.connections},
      clock_, trace_);
  mesh.arena = buffer.arena();
  mesh.policy = policy_;
  mesh.on_fallback = [&fallback, log = mesh.on_fallback](
                         int peer_rank, const std::string& why) {
    log(peer_rank, why);
    fallback = absl::StrCat("with rank ", peer_rank, ": ", why);
  };
  return ConnectMesh(listener_, mesh, &cancel);
}

absl::StatusOr<AllReduceRankEnd> BenchRunner::Measure(
    Communicator& communicator, const BenchBuffer& buffer,
    const CancelToken& cancel, const std::string& fallback) {
  const Topology topology = Topology::OfHosts(assignment_.ranks_per_host);
  AllReduceBenchFigures figures;
  AllReduceRankContext context{
      .communicator = communicator,
      .elements = buffer.elements(),
      .topology = topology,
      .policy = policy_,
      .clock = clock_,
      .cancel = cancel,
      .patience = assignment_.collective_timeout,
      .wish = [this] { return static_cast<BenchWish>(wish_.load()); },
      .fallback = fallback,
      .on_start = {},
      .on_row = {}};
  context.on_start = [&](const AllReduceBenchStart& start) {
    figures.start = start;
    Publish(figures);
    return absl::OkStatus();
  };
  context.on_row = [&](const AllReduceBenchRow& row) {
    figures.rows.push_back(row);
    Publish(figures);
    return absl::OkStatus();
  };
  return MeasureAllReduce(options_, context);
}

void BenchRunner::Publish(const AllReduceBenchFigures& figures) {
  auto copy = std::make_shared<const AllReduceBenchFigures>(figures);
  {
    MutexLock lock(mutex_);
    figures_ = std::move(copy);
  }
  if (assignment_.rank == 0) on_advance_(assignment_.generation);
}

RunOutcome BenchRunner::MakeOutcome(
    const absl::StatusOr<AllReduceRankEnd>& end) const {
  if (!end.ok()) {
    return FailedOutcome(end.status(),
                         {.applied_step = 0,
                          .complete_step = 0,
                          .members = assignment_.world_size,
                          .blamed_rank = blamed_rank_,
                          .is_cancelled = live_.cancel()->is_cancelled()});
  }
  RunOutcome outcome;
  outcome.applied_step = outcome.complete_step = is_done_ ? total_steps() : 0;
  switch (end->wish) {
    case BenchWish::kGoOn:
      outcome.kind = RunOutcome::Kind::kFinished;
      break;
    case BenchWish::kDrain:
      outcome.kind = RunOutcome::Kind::kDrained;
      break;
    case BenchWish::kStop:
      outcome.kind = RunOutcome::Kind::kStopped;
      break;
  }
  if (end->wish == BenchWish::kGoOn && end->own_wrong > 0) {
    outcome.kind = RunOutcome::Kind::kFailed;
    outcome.status = absl::InternalError(
        absl::StrCat("rank ", assignment_.rank, ": ", end->own_wrong,
                     " elements differ from the expected result (#wrong)"));
  }
  return outcome;
}

void BenchRunner::Release() {
  SetDone(false);
  board_.Clear();
}

TrainProgress BenchRunner::progress() const {
  TrainProgress progress = board_.progress();
  const CollectiveProgress communication = live_.communication();
  progress.collective_sequence = communication.completed;
  progress.waiting_for_rank = communication.waiting_for_rank;
  MutexLock lock(mutex_);
  if (is_first_) progress.bench = figures_;
  return progress;
}

}  // namespace

std::unique_ptr<JobRunner> MakeBenchRunner(Clock& clock,
                                           const Listener& listener,
                                           int64_t copy_bytes) {
  return std::make_unique<BenchRunner>(clock, listener, copy_bytes);
}

}  // namespace ringmaster
