#include "server/parameter_server/shard_host.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging/logging.h"
#include "common/optimizer/optimizer_spec.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "common/sync/mutex.h"
#include "common/sync/thread_pool.h"
#include "common/transport/handshake.h"
#include "ringmaster/v1/job.pb.h"
#include "server/parameter_server/host_mailbox.h"
#include "server/parameter_server/host_run.h"
#include "server/parameter_server/host_store.h"
#include "server/parameter_server/parameter_allocator.h"
#include "server/parameter_server/shard_state.h"
#include "server/parameter_server/update_rules.h"

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

class ShardHostImpl final : public StoringShardHost, private ShardShelf {
 public:
  ShardHostImpl(Clock& clock, int threads)
      : clock_(clock), pool_(threads), mailbox_(clock) {}

  absl::Status Prepare(const v1::TrainProgram& program,
                       const ShardHostAssignment& assignment) override;
  absl::StatusOr<DoneKind> Run(ShardHostLinks links,
                               const CancelToken& cancel) override;
  void RequestDrain() override {
    wants_drain_.store(true, std::memory_order_relaxed);
  }
  void Release() override;

  std::vector<HeldShard> held_shards() const override {
    MutexLock lock(mutex_);
    return held_;
  }
  int64_t complete_step() const override {
    return complete_step_.load(std::memory_order_relaxed);
  }
  int waiting_for_rank() const override {
    return signs_.waiting_for_rank.load(std::memory_order_relaxed);
  }
  absl::Duration WaitedFor(int rank) const override EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return loop_ == nullptr ? absl::ZeroDuration() : loop_->WaitedFor(rank);
  }
  int64_t taken_messages() const override {
    return signs_.taken_messages.load(std::memory_order_relaxed);
  }
  bool takes_pushes() const override {
    return signs_.takes_pushes.load(std::memory_order_relaxed);
  }
  int blamed_rank() const override {
    return blamed_rank_.load(std::memory_order_relaxed);
  }
  int64_t payload_sent_bytes() const override {
    return payload_sent_bytes_.load(std::memory_order_relaxed);
  }
  int64_t payload_received_bytes() const override {
    return payload_received_bytes_.load(std::memory_order_relaxed);
  }
  std::vector<int64_t> staleness() const override {
    MutexLock lock(mutex_);
    return staleness_;
  }
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
  ShardState* Find(int shard) override;
  absl::StatusOr<ShardState*> Make(
      const ShardDescription& description) override;

  // Whether a shard that is held is of use in the generation; an error if it
  // should be, and is not.
  [[nodiscard]] absl::StatusOr<bool> Keeps(int shard, ShardState& state) const;
  void ShareParameters();
  [[nodiscard]] absl::StatusOr<DoneKind> Serve(HostRun& run, MessageLoop& loop);
  // FAILED_PRECONDITION: no job has shards here.
  [[nodiscard]] absl::Status CheckHasJob() const EXCLUDES(mutex_);
  void PublishHeld();
  void PublishStaleness(std::vector<int64_t> staleness) EXCLUDES(mutex_);
  // What others may look at; null: nothing.
  void Expose(const MessageLoop* loop) EXCLUDES(mutex_);

  Clock& clock_;
  ThreadPool pool_;
  HeapAllocator heap_;
  std::unique_ptr<ParameterAllocator> shared_;  // null: nothing is shared
  bool has_tried_to_share_ = false;

  // Of the generation.
  OptimizerConfig optimizer_;
  int64_t total_steps_ = 1;
  UpdateRules rules_;
  ShardHostAssignment assignment_;

  std::map<int, std::unique_ptr<ShardState>> shards_;

  HostRun* run_ = nullptr;  // that is being served, for the mailbox's tasks
  HostMailbox mailbox_;

  mutable Mutex mutex_;
  bool has_job_ GUARDED_BY(mutex_) = false;
  std::vector<HeldShard> held_ GUARDED_BY(mutex_);
  std::vector<int64_t> staleness_ GUARDED_BY(mutex_);
  const MessageLoop* loop_ GUARDED_BY(mutex_) = nullptr;
  std::atomic<bool> wants_drain_{false};
  std::atomic<int64_t> complete_step_{0};
  HostSigns signs_;
  std::atomic<int> blamed_rank_{-1};
  std::atomic<int64_t> payload_sent_bytes_{0};
  std::atomic<int64_t> payload_received_bytes_{0};
};

absl::Status ShardHostImpl::Prepare(const v1::TrainProgram& program,
                                    const ShardHostAssignment& assignment) {
  blamed_rank_.store(-1, std::memory_order_relaxed);
  // That was of the generation before.
  wants_drain_.store(false, std::memory_order_relaxed);
  signs_.taken_messages.store(0, std::memory_order_relaxed);
  PublishStaleness({});
  ASSIGN_OR_RETURN(optimizer_, ParseOptimizer(program.optimizer()));
  ASSIGN_OR_RETURN(rules_, ParseUpdateRules(program, optimizer_));
  if (assignment.job_id != assignment_.job_id) Release();
  total_steps_ = program.steps();
  assignment_ = assignment;
  ShareParameters();
  absl::Status missing;
  for (auto it = shards_.begin(); it != shards_.end();) {
    absl::StatusOr<bool> keeps = Keeps(it->first, *it->second);
    missing.Update(keeps.status());
    it = keeps.ok() && *keeps ? std::next(it) : shards_.erase(it);
  }
  const std::vector<ShardPlacement>& placements = assignment.placements.shards;
  for (size_t shard = 0; shard < placements.size() && missing.ok(); ++shard) {
    if (placements[shard].source_rank != assignment.rank ||
        shards_.contains(static_cast<int>(shard)))
      continue;
    missing = absl::FailedPreconditionError(absl::StrCat(
        "rank ", assignment.rank, " is to give shard ", shard, " as of step ",
        assignment.resume_step, ", which it does not hold"));
  }
  complete_step_.store(assignment.resume_step, std::memory_order_relaxed);
  PublishHeld();
  return missing;
}

absl::StatusOr<bool> ShardHostImpl::Keeps(int shard, ShardState& state) const {
  const auto index = static_cast<size_t>(shard);
  if (index >= assignment_.placements.shards.size()) return false;
  const ShardPlacement& placement = assignment_.placements.shards[index];
  const int own = assignment_.rank;
  const bool is_source = placement.source_rank == own;
  const bool is_holder =
      placement.primary_rank == own || placement.backup_rank == own;
  // What rank 0 gives anew is another state, and so is a copy of what was
  // updated in place.
  if (!is_source &&
      (!is_holder || placement.source_rank < 0 || !rules_.is_synchronous))
    return false;
  const absl::Status resumed = state.ResumeAt(assignment_.resume_step);
  if (resumed.ok()) return true;
  if (!is_source) return false;
  return Annotate(resumed, absl::StrCat("rank ", own,
                                        " is to give it as of "
                                        "step ",
                                        assignment_.resume_step));
}

void ShardHostImpl::ShareParameters() {
  // Updates in place would change what is being read.
  if (!rules_.is_synchronous || has_tried_to_share_) return;
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

ShardState* ShardHostImpl::Find(int shard) {
  const auto it = shards_.find(shard);
  return it == shards_.end() ? nullptr : it->second.get();
}

absl::StatusOr<ShardState*> ShardHostImpl::Make(
    const ShardDescription& description) {
  ShardState::Options options;
  options.optimizer = optimizer_;
  options.total_steps = total_steps_;
  options.is_in_place = !rules_.is_synchronous;
  Allocator& parameters =
      shared_ == nullptr ? static_cast<Allocator&>(heap_) : *shared_;
  ASSIGN_OR_RETURN(std::unique_ptr<ShardState> state,
                   ShardState::Create(description, options, parameters, heap_));
  ShardState* const made = state.get();
  shards_[description.shard] = std::move(state);
  return made;
}

absl::StatusOr<DoneKind> ShardHostImpl::Run(ShardHostLinks links,
                                            const CancelToken& cancel) {
  if (static_cast<int>(links.workers.size()) != assignment_.workers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", assignment_.rank, " has connections with ",
        links.workers.size(), " workers of ", assignment_.workers));
  }
  const HostPeers peers = {static_cast<int>(links.workers.size()),
                           static_cast<int>(links.primaries.size()),
                           static_cast<int>(links.backups.size())};
  std::vector<int> worker_peers(links.workers.size(), -1);
  std::vector<MessagePeer> all;
  for (MessagePeer& worker : links.workers) {
    const auto rank = static_cast<size_t>(worker.rank);
    if (rank >= worker_peers.size() || worker_peers[rank] >= 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", assignment_.rank, " has a connection with rank ",
          worker.rank, ", which is no worker, or a second one"));
    }
    worker_peers[rank] = static_cast<int>(all.size());
    all.push_back(std::move(worker));
  }
  for (std::vector<MessagePeer>* group : {&links.primaries, &links.backups}) {
    for (MessagePeer& peer : *group) all.push_back(std::move(peer));
  }
  MessageLoop loop(
      {JobHash(assignment_.job_id), assignment_.generation, assignment_.rank},
      std::move(all), cancel, clock_);
  const HostContext context = {loop,
                               pool_,
                               rules_,
                               std::move(worker_peers),
                               assignment_.resume_step,
                               wants_drain_,
                               signs_};
  HostRun run(assignment_, context, peers, *this);
  run_ = &run;
  Expose(&loop);
  mailbox_.Open([&loop] { loop.Wake(); });
  absl::StatusOr<DoneKind> end = Serve(run, loop);
  mailbox_.Close();
  Expose(nullptr);
  run_ = nullptr;
  complete_step_.store(run.complete_step(), std::memory_order_relaxed);
  signs_.waiting_for_rank.store(-1, std::memory_order_relaxed);
  signs_.takes_pushes.store(false, std::memory_order_relaxed);
  blamed_rank_.store(loop.blamed_rank(), std::memory_order_relaxed);
  PublishHeld();
  PublishStaleness(run.staleness());
  LogStaleness(rules_, run.staleness());
  return end;
}

absl::StatusOr<DoneKind> ShardHostImpl::Serve(HostRun& run, MessageLoop& loop) {
  RETURN_IF_ERROR(run.Begin());
  const int64_t sent_before = payload_sent_bytes();
  const int64_t received_before = payload_received_bytes();
  while (!run.is_done()) {
    run.ShowWait();
    // How long a step may take, the coordinator knows; it cancels.
    RETURN_IF_ERROR(loop.Turn(run, MonotonicTime::InfiniteFuture()));
    mailbox_.RunAll();
    payload_sent_bytes_.store(sent_before + loop.payload_sent_bytes(),
                              std::memory_order_relaxed);
    payload_received_bytes_.store(
        received_before + loop.payload_received_bytes(),
        std::memory_order_relaxed);
    if (!rules_.is_synchronous) PublishStaleness(run.staleness());
    const int64_t complete = run.complete_step();
    if (complete == complete_step()) continue;
    complete_step_.store(complete, std::memory_order_relaxed);
    PublishHeld();
  }
  return run.end();
}

void ShardHostImpl::Expose(const MessageLoop* loop) {
  MutexLock lock(mutex_);
  loop_ = loop;
}

void ShardHostImpl::PublishHeld() {
  std::vector<HeldShard> held;
  for (const auto& [shard, state] : shards_) {
    if (state->is_loaded()) held.push_back({shard, state->complete_step()});
  }
  MutexLock lock(mutex_);
  has_job_ = !assignment_.job_id.empty();
  held_ = std::move(held);
}

void ShardHostImpl::PublishStaleness(std::vector<int64_t> staleness) {
  MutexLock lock(mutex_);
  staleness_ = std::move(staleness);
}

absl::Status ShardHostImpl::CheckHasJob() const {
  MutexLock lock(mutex_);
  if (has_job_) return absl::OkStatus();
  return absl::FailedPreconditionError("no job has parameters here");
}

absl::StatusOr<StoredShards> ShardHostImpl::shards(MonotonicTime deadline) {
  RETURN_IF_ERROR(CheckHasJob());
  StoredShards shards;
  RETURN_IF_ERROR(mailbox_.Call(
      [&]() -> std::optional<absl::Status> {
        absl::StatusOr<std::vector<ElemRange>> ranges = StoredRanges(*run_);
        if (!ranges.ok()) return ranges.status();
        shards = {assignment_.job_id, assignment_.generation,
                  run_->complete_step(), *std::move(ranges)};
        return absl::OkStatus();
      },
      deadline));
  return shards;
}

absl::StatusOr<StoredElements> ShardHostImpl::Read(
    std::vector<ElemRange> ranges, MonotonicTime deadline) {
  RETURN_IF_ERROR(CheckHasJob());
  StoredElements stored;
  RETURN_IF_ERROR(mailbox_.Call(
      [&]() -> std::optional<absl::Status> {
        absl::StatusOr<StoredElements> read = ReadElements(*run_, ranges);
        if (!read.ok()) return read.status();
        stored = *std::move(read);
        return absl::OkStatus();
      },
      deadline));
  return stored;
}

absl::StatusOr<int64_t> ShardHostImpl::Push(const std::string& job_id,
                                            int64_t generation, int64_t begin,
                                            std::vector<float> gradient,
                                            MonotonicTime deadline) {
  RETURN_IF_ERROR(CheckHasJob());
  const auto bad = std::find_if_not(gradient.begin(), gradient.end(),
                                    [](float g) { return std::isfinite(g); });
  if (bad != gradient.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("element ", begin + (bad - gradient.begin()),
                     " of the gradient is ", *bad));
  }
  OutsidePush push(begin, std::move(gradient));
  RETURN_IF_ERROR(mailbox_.Call(
      [&]() -> std::optional<absl::Status> {
        if (job_id != assignment_.job_id) {
          return absl::FailedPreconditionError(
              absl::StrCat("the parameters here are of job ",
                           assignment_.job_id, ", not of ", job_id));
        }
        if (generation != assignment_.generation) {
          return absl::AbortedError(absl::StrCat("generation ", generation,
                                                 " is not the one that is on, ",
                                                 assignment_.generation));
        }
        if (rules_.is_synchronous) {
          return absl::FailedPreconditionError(absl::StrCat(
              "job ", job_id,
              " is synchronous: its steps are made with its workers' gradients "
              "alone; pushes are for train.parameter_server.consistency ssp "
              "and async"));
        }
        return push.Advance(*run_);
      },
      deadline));
  return push.step();
}

void ShardHostImpl::Release() {
  shards_.clear();
  shared_.reset();
  has_tried_to_share_ = false;
  assignment_ = ShardHostAssignment();
  wants_drain_.store(false, std::memory_order_relaxed);
  complete_step_.store(0, std::memory_order_relaxed);
  PublishHeld();
  PublishStaleness({});
}

}  // namespace

std::unique_ptr<StoringShardHost> MakeShardHost(Clock& clock, int threads) {
  return std::make_unique<ShardHostImpl>(clock, threads);
}

}  // namespace ringmaster
