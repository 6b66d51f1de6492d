#include "worker/parameter_server/host_lane.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "common/transport/handshake.h"

namespace ringmaster {
namespace {

constexpr int64_t kNoStep = -1;

// The peers of a loop, and which of them are who.
struct LanePeers {
  std::vector<MessagePeer> all;
  std::vector<int> worker_peers;  // by rank
  HostPeers counts;
};

absl::StatusOr<LanePeers> PeersOf(const ShardHostAssignment& assignment,
                                  ShardHostLinks links) {
  if (static_cast<int>(links.workers.size()) != assignment.workers) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", assignment.rank, " has connections with ",
                     links.workers.size(), " workers of ", assignment.workers));
  }
  LanePeers peers;
  peers.counts = {static_cast<int>(links.workers.size()),
                  static_cast<int>(links.primaries.size()),
                  static_cast<int>(links.backups.size())};
  peers.worker_peers.assign(links.workers.size(), -1);
  for (MessagePeer& worker : links.workers) {
    const auto rank = static_cast<size_t>(worker.rank);
    if (rank >= peers.worker_peers.size() || peers.worker_peers[rank] >= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", assignment.rank, " has a connection with rank ",
                       worker.rank, ", which is no worker, or a second one"));
    }
    peers.worker_peers[rank] = static_cast<int>(peers.all.size());
    peers.all.push_back(std::move(worker));
  }
  for (std::vector<MessagePeer>* group : {&links.primaries, &links.backups}) {
    for (MessagePeer& peer : *group) peers.all.push_back(std::move(peer));
  }
  return peers;
}

}  // namespace

HostLane::HostLane(int index, Clock& clock,
                   const std::atomic<bool>& wants_drain)
    : index_(index),
      clock_(clock),
      wants_drain_(wants_drain),
      mailbox_(clock),
      primary_step_(kNoStep),
      copy_step_(kNoStep) {}

bool HostLane::IsOwn(int shard) const {
  const auto shards =
      static_cast<int>(generation_->assignment.placements.shards.size());
  return shard < shards &&
         LaneOfShard(shard, shards, generation_->lanes) == index_;
}

absl::Status HostLane::Prepare(const HostGeneration& generation) {
  generation_ = &generation;
  is_interrupted_.store(false, std::memory_order_relaxed);
  blamed_rank_.store(-1, std::memory_order_relaxed);
  primary_step_.store(kNoStep, std::memory_order_relaxed);
  copy_step_.store(kNoStep, std::memory_order_relaxed);
  signs_.taken_messages.store(0, std::memory_order_relaxed);
  signs_.begin_step.store(generation.assignment.resume_step,
                          std::memory_order_relaxed);
  {
    MutexLock lock(mutex_);
    staleness_.clear();
  }
  absl::Status missing = SortCopies();
  missing.Update(CheckSources());
  PublishHeld();
  return missing;
}

void HostLane::DropStaleSpares() {
  // ResumeAt finds out about the others by their versions.
  if (generation_->rules.is_synchronous) return;
  const ShardHostAssignment& assignment = generation_->assignment;
  std::erase_if(spares_, [&](const auto& spare) {
    const auto& [shard, state] = spare;
    const bool is_source =
        IsOwn(shard) &&
        assignment.placements.shards[static_cast<size_t>(shard)].source_rank ==
            assignment.rank;
    return !is_source && state->complete_step() != assignment.resume_step;
  });
}

absl::Status HostLane::SortCopies() {
  DropStaleSpares();
  // One that had come in part only leaves the spare that it was to replace.
  for (auto& [shard, state] : shards_) {
    if (state->is_loaded()) spares_[shard] = std::move(state);
  }
  shards_.clear();
  absl::Status missing;
  for (auto next = spares_.begin(); next != spares_.end();) {
    const auto held = next++;
    const absl::StatusOr<Use> use = UseOf(held->first, *held->second);
    missing.Update(use.status());
    switch (use.value_or(Use::kNone)) {
      case Use::kNone:
        spares_.erase(held);
        break;
      case Use::kPart:
        shards_.insert(spares_.extract(held));
        break;
      case Use::kSpare:
        break;
    }
  }
  return missing;
}

absl::StatusOr<HostLane::Use> HostLane::UseOf(int shard,
                                              ShardState& state) const {
  if (!IsOwn(shard)) return Use::kNone;
  const ShardHostAssignment& assignment = generation_->assignment;
  const ShardPlacement& placement =
      assignment.placements.shards[static_cast<size_t>(shard)];
  // A shard that rank 0 gives anew is another state.
  if (placement.source_rank < 0) return Use::kNone;
  const int own = assignment.rank;
  const bool is_source = placement.source_rank == own;
  const bool is_holder =
      placement.primary_rank == own || placement.backup_rank == own;
  const absl::Status resumed = state.ResumeAt(assignment.resume_step);
  if (!resumed.ok()) {
    if (!is_source) return Use::kNone;
    return Annotate(resumed,
                    absl::StrCat("rank ", own, " is to give it as of step ",
                                 assignment.resume_step));
  }
  // A holder's copy that is updated in place may differ from the source's.
  const bool is_part =
      is_source || (is_holder && generation_->rules.is_synchronous);
  return is_part ? Use::kPart : Use::kSpare;
}

absl::Status HostLane::CheckSources() const {
  const ShardHostAssignment& assignment = generation_->assignment;
  const auto shards = static_cast<int>(assignment.placements.shards.size());
  for (int shard = 0; shard < shards; ++shard) {
    const ShardPlacement& placement =
        assignment.placements.shards[static_cast<size_t>(shard)];
    if (placement.source_rank != assignment.rank || !IsOwn(shard) ||
        shards_.contains(shard))
      continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "rank ", assignment.rank, " is to give shard ", shard, " as of step ",
        assignment.resume_step, ", which it does not hold"));
  }
  return absl::OkStatus();
}

ShardState* HostLane::Find(int shard) {
  const auto it = shards_.find(shard);
  return it == shards_.end() ? nullptr : it->second.get();
}

absl::StatusOr<ShardState*> HostLane::Make(
    const ShardDescription& description) {
  ShardState::Options options;
  options.optimizer = generation_->optimizer;
  options.total_steps = generation_->total_steps;
  options.is_in_place = !generation_->rules.is_synchronous;
  const auto create = [&] {
    return ShardState::Create(description, options, *generation_->parameters,
                              heap_);
  };
  absl::StatusOr<std::unique_ptr<ShardState>> state = create();
  if (absl::IsResourceExhausted(state.status()) && !spares_.empty()) {
    // A spare is not worth a holder.
    spares_.clear();
    PublishHeld();
    state = create();
  }
  RETURN_IF_ERROR(state.status());
  ShardState* const made = state->get();
  shards_[description.shard] = *std::move(state);
  return made;
}

absl::StatusOr<DoneKind> HostLane::Run(ShardHostLinks links,
                                       const CancelToken& cancel) {
  const ShardHostAssignment& assignment = generation_->assignment;
  ASSIGN_OR_RETURN(LanePeers peers, PeersOf(assignment, std::move(links)));
  MessageLoop loop(
      {JobHash(assignment.job_id), assignment.generation, assignment.rank},
      std::move(peers.all), cancel, clock_);
  const HostContext context = {.loop = loop,
                               .pool = pool_,
                               .rules = generation_->rules,
                               .worker_peers = std::move(peers.worker_peers),
                               .resume_step = assignment.resume_step,
                               .lane = index_,
                               .lanes = generation_->lanes,
                               .wants_drain = wants_drain_,
                               .signs = signs_};
  HostRun run(assignment, context, peers.counts, *this);
  // Also where it throws: nobody may come upon what was here.
  const absl::Cleanup leave = [this] {
    mailbox_.Close();
    Expose(nullptr);
    run_ = nullptr;
    signs_.waiting_for_rank.store(-1, std::memory_order_relaxed);
    signs_.takes_pushes.store(false, std::memory_order_relaxed);
  };
  run_ = &run;
  Expose(&loop);
  mailbox_.Open([&loop] { loop.Wake(); });
  absl::StatusOr<DoneKind> end = Serve(run, loop);
  blamed_rank_.store(loop.blamed_rank(), std::memory_order_relaxed);
  Publish(run);
  PublishStaleness(run);
  PublishHeld();
  return end;
}

absl::StatusOr<DoneKind> HostLane::Serve(HostRun& run, MessageLoop& loop) {
  RETURN_IF_ERROR(run.Begin());
  Publish(run);
  while (!run.is_done()) {
    if (is_interrupted_.load(std::memory_order_relaxed))
      return absl::AbortedError("another part of this host has failed");
    run.ShowWait();
    // The coordinator knows how long a step may take; it cancels.
    RETURN_IF_ERROR(loop.PollOnce(run, MonotonicTime::InfiniteFuture()));
    // First: a small client must not see an older step than another one did.
    Publish(run);
    mailbox_.RunAll();
  }
  return run.end();
}

void HostLane::Publish(const HostRun& run) {
  const auto store = [](std::atomic<int64_t>& step,
                        std::optional<int64_t> now) {
    return step.exchange(now.value_or(kNoStep), std::memory_order_relaxed) !=
           now.value_or(kNoStep);
  };
  const LeastSteps least = run.least_steps();
  DropSpares(least);
  const bool has_primary_moved = store(primary_step_, least.of_primaries);
  const bool has_copy_moved = store(copy_step_, least.of_copies);
  const int loaded_count = run.loaded_count();
  if (!has_primary_moved && !has_copy_moved && loaded_count == loaded_count_)
    return;
  loaded_count_ = loaded_count;
  PublishStaleness(run);
  PublishHeld();
}

void HostLane::DropSpares(const LeastSteps& least) {
  if (spares_.empty()) return;
  // The first step is answered once the holders of all shards have made it, and
  // without that answer no worker pushes the second. (A lane that holds nothing
  // else sees no steps, and keeps its spares until the next generation.)
  const int64_t resume_step = generation_->assignment.resume_step;
  if (least.CompleteStep(resume_step) < resume_step + 2) return;
  spares_.clear();
  PublishHeld();
}

void HostLane::PublishStaleness(const HostRun& run) {
  if (generation_->rules.is_synchronous) return;
  std::vector<int64_t> staleness = run.staleness();
  MutexLock lock(mutex_);
  staleness_ = std::move(staleness);
}

void HostLane::PublishHeld() {
  std::map<int, int64_t> steps;
  for (const auto* copies : {&spares_, &shards_}) {
    for (const auto& [shard, state] : *copies) {
      if (state->is_loaded()) steps[shard] = state->complete_step();
    }
  }
  std::vector<HeldShard> held;
  for (const auto& [shard, step] : steps) held.push_back({shard, step});
  MutexLock lock(mutex_);
  held_ = std::move(held);
}

void HostLane::Expose(const MessageLoop* loop) {
  is_running_.store(loop != nullptr, std::memory_order_relaxed);
  MutexLock lock(mutex_);
  loop_ = loop;
}

absl::Duration HostLane::WaitedFor(int rank) const {
  MutexLock lock(mutex_);
  return loop_ == nullptr ? absl::ZeroDuration() : loop_->WaitedFor(rank);
}

void HostLane::Clear() {
  shards_.clear();
  spares_.clear();
  PublishHeld();
}

void HostLane::Interrupt() {
  is_interrupted_.store(true, std::memory_order_relaxed);
  mailbox_.Wake();
}

absl::Status HostLane::Call(const Task& task, MonotonicTime deadline) {
  return mailbox_.Call([&] { return task(*run_, *generation_); }, deadline);
}

std::vector<HeldShard> HostLane::held_shards() const {
  MutexLock lock(mutex_);
  return held_;
}

LeastSteps HostLane::least_steps() const {
  const auto load = [](const std::atomic<int64_t>& step) {
    const int64_t now = step.load(std::memory_order_relaxed);
    return now == kNoStep ? std::nullopt : std::optional<int64_t>(now);
  };
  return {.of_primaries = load(primary_step_), .of_copies = load(copy_step_)};
}

std::vector<int64_t> HostLane::staleness() const {
  MutexLock lock(mutex_);
  return staleness_;
}

}  // namespace ringmaster
