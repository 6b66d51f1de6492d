#include "worker/parameter_server/shard_host.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging/logging.h"
#include "common/optimizer/optimizer_spec.h"
#include "common/parameter_server/update_rules.h"
#include "common/status/status_macros.h"
#include "common/sync/mutex.h"
#include "common/tensor/allocator.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/parameter_server/host_lane.h"
#include "worker/parameter_server/host_run.h"
#include "worker/parameter_server/host_store.h"
#include "worker/parameter_server/lane_threads.h"
#include "worker/parameter_server/least_steps.h"
#include "worker/parameter_server/parameter_allocator.h"

namespace ringmaster {
namespace {

// "0:120 1:31 2:9": answers by how many steps ahead they were.
void LogStaleness(const UpdateRules& rules,
                  const std::vector<int64_t>& counts) {
  if (rules.is_synchronous) return;
  std::string by_steps;
  for (size_t ahead = 0; ahead < counts.size(); ++ahead) {
    if (counts[ahead] == 0) continue;
    absl::StrAppend(&by_steps, by_steps.empty() ? "" : " ", ahead, ":",
                    counts[ahead]);
  }
  LogEvent(
      LogLevel::kInfo, "shards.staleness",
      {{"bound",
        rules.staleness.has_value() ? absl::StrCat(*rules.staleness) : "none"},
       {"answers_by_steps_ahead", by_steps}});
}

// Lanes outlive calls of small clients that are under way.
using Lanes = std::vector<std::shared_ptr<HostLane>>;

class ShardHostImpl final : public StoringShardHost {
 public:
  explicit ShardHostImpl(Clock& clock) : clock_(clock) {}
  ~ShardHostImpl() override { DropLanes(); }

  absl::Status Prepare(const v1::TrainProgram& program,
                       const ShardHostAssignment& assignment) override;
  absl::StatusOr<DoneKind> Run(std::vector<ShardHostLinks> links,
                               const CancelToken& cancel) override;
  void RequestDrain() override {
    wants_drain_.store(true, std::memory_order_relaxed);
  }
  void Release() override;

  std::vector<HeldShard> held_shards() const override;
  int64_t complete_step() const override;
  int64_t begin_step() const override;
  int waiting_for_rank() const override;
  absl::Duration WaitedFor(int rank) const override;
  int64_t taken_messages() const override;
  bool takes_pushes() const override;
  int blamed_rank() const override {
    return blamed_rank_.load(std::memory_order_relaxed);
  }
  std::vector<int64_t> staleness() const override;
  const SharedSegment* shared_parameters() const override {
    return shared_ == nullptr ? nullptr : &shared_->segment();
  }

  absl::StatusOr<StoredShards> shards(MonotonicTime deadline) override;
  absl::StatusOr<StoredElements> Read(std::vector<ElemRange> ranges,
                                      MonotonicTime deadline) override;
  absl::StatusOr<int64_t> Push(const std::string& job_id, int64_t generation,
                               int64_t begin, std::vector<float> gradient,
                               MonotonicTime deadline) override;

 private:
  void MakeLanes(int lanes) EXCLUDES(mutex_);
  void DropLanes() EXCLUDES(mutex_);
  void ShareParameters();
  [[nodiscard]] Lanes lanes() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return lanes_;
  }
  // FAILED_PRECONDITION: no job has shards here.
  [[nodiscard]] absl::StatusOr<Lanes> LanesOfJob() const EXCLUDES(mutex_);

  Clock& clock_;
  HeapAllocator heap_;
  std::unique_ptr<ParameterAllocator> shared_;  // null: nothing is shared
  bool has_tried_to_share_ = false;
  HostGeneration generation_;

  mutable Mutex mutex_;
  Lanes lanes_ GUARDED_BY(mutex_);  // none: no job has shards here
  std::atomic<bool> wants_drain_{false};
  std::atomic<int64_t> resume_step_{0};
  std::atomic<int> blamed_rank_{-1};
};

void ShardHostImpl::MakeLanes(int lanes) {
  // A job's are as many in every generation.
  if (!this->lanes().empty()) return;
  Lanes made;
  for (int i = 0; i < lanes; ++i)
    made.push_back(std::make_shared<HostLane>(i, clock_, wants_drain_));
  MutexLock lock(mutex_);
  lanes_ = std::move(made);
}

void ShardHostImpl::DropLanes() {
  Lanes dropped;
  {
    MutexLock lock(mutex_);
    dropped.swap(lanes_);
  }
  // Not under the lock: gigabytes take long to give back, and heartbeats ask.
  for (const auto& lane : dropped) lane->Clear();
}

absl::Status ShardHostImpl::Prepare(const v1::TrainProgram& program,
                                    const ShardHostAssignment& assignment) {
  blamed_rank_.store(-1, std::memory_order_relaxed);
  // That was of the generation before.
  wants_drain_.store(false, std::memory_order_relaxed);
  ASSIGN_OR_RETURN(const OptimizerConfig optimizer,
                   ParseOptimizer(program.optimizer()));
  ASSIGN_OR_RETURN(const UpdateRules rules,
                   ParseUpdateRules(program, optimizer));
  if (assignment.job_id != generation_.assignment.job_id) Release();
  generation_ = {.assignment = assignment,
                 .optimizer = optimizer,
                 .total_steps = program.steps(),
                 .rules = rules,
                 .lanes = LanesOf(program)};
  ShareParameters();
  generation_.parameters =
      shared_ == nullptr ? static_cast<Allocator*>(&heap_) : shared_.get();
  resume_step_.store(assignment.resume_step, std::memory_order_relaxed);
  MakeLanes(generation_.lanes);
  absl::Status missing;
  for (const auto& lane : lanes()) missing.Update(lane->Prepare(generation_));
  return missing;
}

void ShardHostImpl::ShareParameters() {
  // Updates in place would change what is being read.
  if (!generation_.rules.is_synchronous || has_tried_to_share_) return;
  has_tried_to_share_ = true;
  absl::StatusOr<std::unique_ptr<ParameterAllocator>> shared =
      ParameterAllocator::Create();
  if (shared.ok()) {
    shared_ = *std::move(shared);
  } else {
    LogEvent(LogLevel::kWarning, "shards.not_shared",
             {{"why", shared.status().message()}});
  }
}

absl::StatusOr<DoneKind> ShardHostImpl::Run(std::vector<ShardHostLinks> links,
                                            const CancelToken& cancel) {
  const Lanes lanes = this->lanes();
  if (links.size() != lanes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", generation_.assignment.rank,
                     " has connections of ", links.size(), " lanes of ",
                     lanes.size(), " (train.collective.connections)"));
  }
  const LanesEnd end = RunLanes(lanes, std::move(links), cancel);
  blamed_rank_.store(end.blamed_rank, std::memory_order_relaxed);
  LogStaleness(generation_.rules, staleness());
  return end.result;
}

std::vector<HeldShard> ShardHostImpl::held_shards() const {
  std::vector<HeldShard> all;
  for (const auto& lane : lanes()) {
    const std::vector<HeldShard> held = lane->held_shards();
    all.insert(all.end(), held.begin(), held.end());
  }
  return all;
}

int64_t ShardHostImpl::complete_step() const {
  LeastSteps least;
  for (const auto& lane : lanes()) least.Add(lane->least_steps());
  return least.CompleteStep(resume_step_.load(std::memory_order_relaxed));
}

int64_t ShardHostImpl::begin_step() const {
  int64_t step = resume_step_.load(std::memory_order_relaxed);
  // A lane without shards knows of no checkpoint.
  for (const auto& lane : lanes()) {
    step = std::max(step,
                    lane->signs().begin_step.load(std::memory_order_relaxed));
  }
  return step;
}

int ShardHostImpl::waiting_for_rank() const {
  int awaited = -1;
  bool is_held_up = false;
  for (const auto& lane : lanes()) {
    if (!lane->is_running()) continue;
    const int rank =
        lane->signs().waiting_for_rank.load(std::memory_order_relaxed);
    // One that works is what the others' peers wait for.
    if (rank < 0) return -1;
    const bool holds_up =
        lane->signs().is_held_up.load(std::memory_order_relaxed);
    if (awaited < 0 || (holds_up && !is_held_up)) awaited = rank;
    is_held_up |= holds_up;
  }
  return awaited;
}

absl::Duration ShardHostImpl::WaitedFor(int rank) const {
  // They wait beside each other.
  absl::Duration longest;
  for (const auto& lane : lanes())
    longest = std::max(longest, lane->WaitedFor(rank));
  return longest;
}

int64_t ShardHostImpl::taken_messages() const {
  int64_t sum = 0;
  for (const auto& lane : lanes())
    sum += lane->signs().taken_messages.load(std::memory_order_relaxed);
  return sum;
}

bool ShardHostImpl::takes_pushes() const {
  bool is_running = false;
  for (const auto& lane : lanes()) {
    if (!lane->is_running()) continue;
    is_running = true;
    if (!lane->signs().takes_pushes.load(std::memory_order_relaxed))
      return false;
  }
  return is_running;
}

std::vector<int64_t> ShardHostImpl::staleness() const {
  std::vector<int64_t> sum;
  for (const auto& lane : lanes()) {
    const std::vector<int64_t> counts = lane->staleness();
    sum.resize(std::max(sum.size(), counts.size()));
    std::transform(counts.begin(), counts.end(), sum.begin(), sum.begin(),
                   std::plus<>());
  }
  return sum;
}

absl::StatusOr<Lanes> ShardHostImpl::LanesOfJob() const {
  Lanes lanes = this->lanes();
  if (!lanes.empty()) return lanes;
  return absl::FailedPreconditionError("no job has parameters here");
}

absl::StatusOr<StoredShards> ShardHostImpl::shards(MonotonicTime deadline) {
  ASSIGN_OR_RETURN(const Lanes lanes, LanesOfJob());
  StoredShards shards;
  RETURN_IF_ERROR(WithAllHeld(
      lanes, deadline,
      [&](const HostRuns& runs, const ShardHostAssignment& assignment) {
        shards.job_id = assignment.job_id;
        shards.generation = assignment.generation;
        shards.step = CompleteStepOf(runs);
        absl::StatusOr<std::vector<ElemRange>> ranges = StoredRanges(runs);
        if (ranges.ok()) shards.ranges = *std::move(ranges);
        return ranges.status();
      }));
  return shards;
}

absl::StatusOr<StoredElements> ShardHostImpl::Read(
    std::vector<ElemRange> ranges, MonotonicTime deadline) {
  ASSIGN_OR_RETURN(const Lanes lanes, LanesOfJob());
  StoredElements stored;
  RETURN_IF_ERROR(WithAllHeld(
      lanes, deadline, [&](const HostRuns& runs, const ShardHostAssignment&) {
        absl::StatusOr<StoredElements> read = ReadElements(runs, ranges);
        if (read.ok()) stored = *std::move(read);
        return read.status();
      }));
  return stored;
}

absl::Status CheckPush(const HostGeneration& here, const std::string& job_id,
                       int64_t generation) {
  if (job_id != here.assignment.job_id) {
    return absl::FailedPreconditionError(
        absl::StrCat("the parameters here are of job ", here.assignment.job_id,
                     ", not of ", job_id));
  }
  if (generation != here.assignment.generation) {
    return absl::AbortedError(absl::StrCat("generation ", generation,
                                           " is not the one that is on, ",
                                           here.assignment.generation));
  }
  if (!here.rules.is_synchronous) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("job ", job_id,
                   " is synchronous: its steps are made with its workers' "
                   "gradients alone; pushes are for "
                   "train.parameter_server.consistency ssp and async"));
}

absl::StatusOr<int64_t> ShardHostImpl::Push(const std::string& job_id,
                                            int64_t generation, int64_t begin,
                                            std::vector<float> gradient,
                                            MonotonicTime deadline) {
  ASSIGN_OR_RETURN(const Lanes lanes, LanesOfJob());
  const auto bad = std::find_if_not(gradient.begin(), gradient.end(),
                                    [](float g) { return std::isfinite(g); });
  if (bad != gradient.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("element ", begin + (bad - gradient.begin()),
                     " of the gradient is ", *bad));
  }
  OutsidePush push(begin, std::move(gradient));
  absl::Status status;
  // The step of the generation that took the push.
  int64_t step = 0;
  for (const auto& lane : lanes) {
    status = lane->Call(
        [&](HostRun& run,
            const HostGeneration& here) -> std::optional<absl::Status> {
          absl::Status fits = CheckPush(here, job_id, generation);
          if (!fits.ok()) return fits;
          std::optional<absl::Status> end = push.Advance(run);
          if (end.has_value() && end->ok()) step = complete_step();
          return end;
        },
        deadline);
    // It may be another lane's.
    if (!absl::IsOutOfRange(status)) break;
  }
  if (!status.ok()) return status;
  return step;
}

void ShardHostImpl::Release() {
  DropLanes();
  shared_.reset();
  has_tried_to_share_ = false;
  generation_ = HostGeneration();
  wants_drain_.store(false, std::memory_order_relaxed);
  resume_step_.store(0, std::memory_order_relaxed);
}

}  // namespace

std::unique_ptr<StoringShardHost> MakeShardHost(Clock& clock) {
  return std::make_unique<ShardHostImpl>(clock);
}

}  // namespace ringmaster
