#include "worker/parameter_server/host_run.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "worker/parameter_server/staleness_gate.h"

namespace ringmaster {
namespace {

// A description of a million buckets is smaller.
constexpr int64_t kMaxDescriptionBytes = 64 << 20;

bool IsOneOf(ShardOp op, std::initializer_list<ShardOp> ops) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

}  // namespace

HostRun::HostRun(const ShardHostAssignment& assignment,
                 const HostContext& context, const HostPeers& peers,
                 ShardShelf& shelf)
    : assignment_(assignment),
      context_(context),
      shelf_(shelf),
      pushes_(static_cast<size_t>(peers.workers)),
      workers_left_(peers.workers) {
  const auto add = [this](int count, Role role) {
    Peer peer;
    peer.role = role;
    peers_.insert(peers_.end(), static_cast<size_t>(count), peer);
  };
  add(peers.workers, Role::kWorker);
  add(peers.givers, Role::kGiver);
  add(peers.takers, Role::kTaker);
}

const ShardPlacement& HostRun::PlacementOf(int shard) const {
  return assignment_.placements.shards[static_cast<size_t>(shard)];
}

int HostRun::FindPeer(int rank, Role role) const {
  for (int peer = 0; peer < context_.loop.peers(); ++peer) {
    if (peers_[static_cast<size_t>(peer)].role == role && RankOf(peer) == rank)
      return peer;
  }
  return -1;
}

int HostRun::GiverOf(int shard, int taker) const {
  const ShardPlacement& placement = PlacementOf(shard);
  if (placement.source_rank >= 0) return placement.source_rank;
  return taker == placement.primary_rank ? -1 : placement.primary_rank;
}

absl::Status HostRun::Begin() {
  const auto shards = static_cast<int>(assignment_.placements.shards.size());
  run_of_shard_.resize(static_cast<size_t>(shards));
  for (int shard = 0; shard < shards; ++shard) {
    if (LaneOfShard(shard, shards, context_.lanes) != context_.lane) continue;
    const ShardPlacement& placement = PlacementOf(shard);
    const bool is_primary = placement.primary_rank == assignment_.rank;
    if (!is_primary && placement.backup_rank != assignment_.rank &&
        placement.source_rank != assignment_.rank)
      continue;
    const int backup = is_primary ? placement.backup_rank : -1;
    const int backup_peer = backup < 0 ? -1 : FindPeer(backup, Role::kTaker);
    if (backup >= 0 && backup_peer < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", assignment_.rank, " has no connection to rank ",
                       backup, ", which is the backup of shard ", shard));
    }
    runs_.push_back(
        std::make_unique<ShardRun>(context_, shard, is_primary, backup_peer));
    run_of_shard_[static_cast<size_t>(shard)] = runs_.back().get();
    RETURN_IF_ERROR(BeginShard(*runs_.back()));
  }
  return absl::OkStatus();
}

absl::Status HostRun::BeginShard(ShardRun& run) {
  const int own = assignment_.rank;
  const ShardPlacement& placement = PlacementOf(run.shard());
  ShardState* const held = shelf_.Find(run.shard());
  if (held != nullptr) run.SetState(held);
  const int giver = GiverOf(run.shard(), own);
  const bool needs_copy = giver >= 0 && giver != own && held == nullptr;
  const auto say = [&](int rank, ShardOp op) {
    const int peer = FindPeer(rank, Role::kGiver);
    if (peer < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", own, " has no connection from rank ", rank,
                       ", which gives it shard ", run.shard()));
    }
    ShardMessage message;
    message.op = op;
    message.shard = run.shard();
    context_.loop.Send(peer, message);
    return absl::OkStatus();
  };
  if (needs_copy) RETURN_IF_ERROR(say(giver, ShardOp::kPull));
  const bool is_asked = needs_copy && giver == placement.primary_rank;
  if (placement.backup_rank == own && !is_asked)
    return say(placement.primary_rank, ShardOp::kUpdated);
  return absl::OkStatus();
}

bool HostRun::is_done() const {
  return workers_left_ == 0 && AwaitedAtTheEnd() < 0;
}

int HostRun::AwaitedForCopies() const {
  for (const auto& run : runs_) {
    const ShardPlacement& placement = PlacementOf(run->shard());
    if (!run->is_loaded())
      return std::max(0, GiverOf(run->shard(), assignment_.rank));
    if (run->awaits_backup_begin()) return placement.backup_rank;
  }
  return -1;
}

int HostRun::AwaitedAtTheEnd() const {
  for (int peer = 0; peer < context_.loop.peers(); ++peer) {
    const Peer& each = peers_[static_cast<size_t>(peer)];
    const bool is_open =
        (each.role == Role::kGiver && !each.is_done) ||
        (each.role == Role::kTaker && !context_.loop.IsFlushed(peer));
    if (is_open) return RankOf(peer);
  }
  return -1;
}

HostRun::Awaited HostRun::FindAwaited(int for_copies) const {
  if (workers_left_ == 0) return {AwaitedAtTheEnd(), true};
  if (for_copies >= 0) return {for_copies, true};
  for (const auto& run : runs_) {
    if (run->awaits_backup())
      return {PlacementOf(run->shard()).backup_rank, true};
  }
  return SlowestWorker();
}

void HostRun::ShowWait() {
  const int for_copies = AwaitedForCopies();
  const Awaited awaited = FindAwaited(for_copies);
  context_.loop.SetWaitingFor(awaited.holds_up ? awaited.rank : -1);
  context_.signs.is_held_up.store(awaited.holds_up, std::memory_order_relaxed);
  context_.signs.waiting_for_rank.store(awaited.rank,
                                        std::memory_order_relaxed);
  context_.signs.takes_pushes.store(for_copies < 0, std::memory_order_relaxed);
}

HostRun::Awaited HostRun::SlowestWorker() const {
  int least_rank = -1;
  int64_t least = 0;
  int64_t most = 0;
  for (int rank = 0; rank < context_.workers(); ++rank) {
    const int peer = context_.worker_peers[static_cast<size_t>(rank)];
    if (peers_[static_cast<size_t>(peer)].is_done) continue;
    const int64_t pushes = pushes_[static_cast<size_t>(rank)];
    if (least_rank < 0 || pushes < least) {
      least_rank = rank;
      least = pushes;
    }
    most = std::max(most, pushes);
  }
  return {least_rank, least < most};
}

LeastSteps HostRun::least_steps() const {
  LeastSteps least;
  for (const auto& run : runs_) {
    const int64_t step = run->is_loaded() ? run->state()->complete_step()
                                          : assignment_.resume_step;
    if (run->is_primary()) {
      least.Add({.of_primaries = step});
    } else if (run->is_loaded()) {
      least.Add({.of_copies = step});
    }
  }
  return least;
}

int HostRun::loaded_count() const {
  return static_cast<int>(
      std::count_if(runs_.begin(), runs_.end(),
                    [](const auto& run) { return run->is_loaded(); }));
}

std::vector<int64_t> HostRun::staleness() const {
  if (context_.rules.is_synchronous) return {};
  std::vector<int64_t> sum(kStalenessBins);
  for (const auto& run : runs_) {
    if (run->gate() == nullptr) continue;
    const StalenessCounts& counts = run->gate()->staleness();
    std::transform(counts.begin(), counts.end(), sum.begin(), sum.begin(),
                   std::plus<>());
  }
  return sum;
}

absl::Status HostRun::Misplaced(const ShardMessage& message) const {
  return absl::FailedPreconditionError(
      absl::StrCat("it sent a ", DescribeShardMessage(message), ", which rank ",
                   assignment_.rank,
                   " does not get from it: the placements differ, or the "
                   "protocol"));
}

absl::StatusOr<ShardRun*> HostRun::RunFor(int peer,
                                          const ShardMessage& message) {
  const auto shard = static_cast<size_t>(message.shard);
  ShardRun* const run =
      shard < run_of_shard_.size() ? run_of_shard_[shard] : nullptr;
  if (run == nullptr) return Misplaced(message);
  const ShardPlacement& placement = PlacementOf(message.shard);
  const int rank = RankOf(peer);
  const ShardOp op = message.op;
  bool is_right = false;
  switch (PeerAt(peer).role) {
    case Role::kWorker:
      is_right =
          run->is_primary() &&
          (IsOneOf(op, {ShardOp::kOpen, ShardOp::kPull, ShardOp::kPush,
                        ShardOp::kScale}) ||
           (op == ShardOp::kLoad && rank == 0 && placement.source_rank < 0));
      break;
    case Role::kGiver:
      is_right = (IsOneOf(op, {ShardOp::kOpen, ShardOp::kState}) &&
                  rank == GiverOf(message.shard, assignment_.rank)) ||
                 (op == ShardOp::kUpdate && rank == placement.primary_rank &&
                  placement.backup_rank == assignment_.rank);
      break;
    case Role::kTaker:
      is_right = (op == ShardOp::kPull &&
                  GiverOf(message.shard, rank) == assignment_.rank) ||
                 (op == ShardOp::kUpdated && run->is_primary() &&
                  placement.backup_rank == rank);
      break;
  }
  if (!is_right) return Misplaced(message);
  return run;
}

absl::Status HostRun::CheckOpened(int peer, const ShardMessage& message) {
  const std::vector<int>& opened = PeerAt(peer).opened;
  if (std::find(opened.begin(), opened.end(), message.shard) != opened.end())
    return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("it sent a ", DescribeShardMessage(message),
                   ", but has not said yet what the shard is"));
}

absl::StatusOr<std::optional<MessageSink>> HostRun::OnMessage(
    int peer, const ShardMessage& message) {
  if (message.op == ShardOp::kDone) {
    if (PeerAt(peer).role == Role::kTaker || message.count != 0)
      return Misplaced(message);
    return MessageSink();
  }
  ASSIGN_OR_RETURN(ShardRun* const run, RunFor(peer, message));
  if (message.op == ShardOp::kOpen) return BeginDescription(peer, message);
  switch (PeerAt(peer).role) {
    case Role::kWorker:
      RETURN_IF_ERROR(CheckOpened(peer, message));
      return BeginOfWorker(peer, *run, message);
    case Role::kGiver:
      if (message.op == ShardOp::kUpdate) return run->BeginUpdate(message);
      RETURN_IF_ERROR(CheckOpened(peer, message));
      return BeginLoad(*run, message);
    case Role::kTaker:
      if (message.count != 0) return Misplaced(message);
      if (message.op == ShardOp::kPull && !run->is_loaded())
        return std::nullopt;
      break;
  }
  return MessageSink();
}

absl::Status HostRun::OnComplete(int peer, const ShardMessage& message) {
  context_.signs.NoteMessage();
  if (message.op == ShardOp::kDone) return Done(peer, message);
  ShardRun& run = *run_of_shard_[static_cast<size_t>(message.shard)];
  if (message.op == ShardOp::kOpen) return Described(peer, run);
  switch (PeerAt(peer).role) {
    case Role::kWorker:
      return OfWorker(peer, run, message);
    case Role::kGiver:
      return message.op == ShardOp::kUpdate ? run.Updated(peer, message)
                                            : Loaded(run, message);
    case Role::kTaker:
      break;
  }
  if (message.op == ShardOp::kUpdated) return run.BackupUpdated(message);
  Give(peer, run);
  return absl::OkStatus();
}

HostRun::Sink HostRun::BeginDescription(int peer, const ShardMessage& message) {
  if (message.count > kMaxDescriptionBytes) return Misplaced(message);
  std::vector<std::byte>& bytes = PeerAt(peer).description;
  bytes.resize(static_cast<size_t>(message.count));
  return MessageSink{bytes.data()};
}

absl::Status HostRun::Described(int peer, ShardRun& run) {
  ASSIGN_OR_RETURN(const ShardDescription description,
                   ParseShardDescription(PeerAt(peer).description));
  PeerAt(peer).description = {};
  if (description.shard != run.shard()) {
    return absl::FailedPreconditionError(
        absl::StrCat("it described shard ", description.shard,
                     " in the place of ", run.shard()));
  }
  if (run.state() == nullptr) {
    ShardState* state = shelf_.Find(run.shard());
    if (state == nullptr) {
      ASSIGN_OR_RETURN(state, shelf_.Make(description));
    }
    run.SetState(state);
  }
  if (run.state()->description() != description) {
    const ShardDescription& own = run.state()->description();
    return absl::FailedPreconditionError(absl::StrCat(
        "its shard ", run.shard(), " has ", description.bucket_elems.size(),
        " buckets of ", description.num_elems(), " elements (plan ",
        absl::Hex(description.plan_hash), "), that of rank ", assignment_.rank,
        " and the others ", own.bucket_elems.size(), " of ", own.num_elems(),
        " (plan ", absl::Hex(own.plan_hash),
        "): they do not run the same job with the same build"));
  }
  PeerAt(peer).opened.push_back(run.shard());
  return absl::OkStatus();
}

HostRun::Sink HostRun::BeginLoad(ShardRun& run, const ShardMessage& message) {
  ASSIGN_OR_RETURN(const int bucket, run.BucketOf(message, true));
  if (run.is_loaded()) {
    return absl::FailedPreconditionError(
        absl::StrCat("it sent a ", DescribeShardMessage(message),
                     ", but the shard is here already"));
  }
  return MessageSink{reinterpret_cast<std::byte*>(
      run.state()->BeginLoad(bucket, message.part, message.step).data())};
}

absl::Status HostRun::Loaded(ShardRun& run, const ShardMessage& message) {
  ASSIGN_OR_RETURN(const int bucket, run.BucketOf(message, true));
  RETURN_IF_ERROR(FAIL_POINT("shard_host.load"));
  const int64_t updates_per_step =
      context_.rules.is_synchronous ? 1 : context_.workers();
  run.state()->EndLoad(bucket, message.part, message.step,
                       message.op == ShardOp::kState
                           ? static_cast<int64_t>(message.value)
                           : message.step * updates_per_step);
  if (!run.is_loaded()) return absl::OkStatus();
  const bool is_given_anew = PlacementOf(run.shard()).source_rank < 0;
  run.Begin(is_given_anew);
  if (is_given_anew) {
    context_.signs.begin_step.store(run.state()->complete_step(),
                                    std::memory_order_relaxed);
  }
  return absl::OkStatus();
}

HostRun::Sink HostRun::BeginOfWorker(int peer, ShardRun& run,
                                     const ShardMessage& message) {
  if (PeerAt(peer).is_done) return Misplaced(message);
  switch (message.op) {
    case ShardOp::kLoad:
      return BeginLoad(run, message);
    case ShardOp::kPull:
      return run.BeginPull(message);
    case ShardOp::kPush:
      return run.BeginPush(RankOf(peer), message);
    default:
      if (message.count != 0) return Misplaced(message);
      return MessageSink();
  }
}

absl::Status HostRun::OfWorker(int peer, ShardRun& run,
                               const ShardMessage& message) {
  switch (message.op) {
    case ShardOp::kLoad:
      return Loaded(run, message);
    case ShardOp::kPull:
      return run.Pulled(peer, message);
    case ShardOp::kPush:
      ++pushes_[static_cast<size_t>(RankOf(peer))];
      return run.Pushed(RankOf(peer), message);
    default:
      return run.Scaled(message);
  }
}

void HostRun::Give(int peer, ShardRun& run) {
  const ShardState& state = *run.state();
  const std::vector<std::byte> description = Encode(state.description());
  ShardMessage message;
  message.op = ShardOp::kOpen;
  message.shard = run.shard();
  context_.loop.SendCopy(peer, message,
                         {.data = description.data(),
                          .count = static_cast<int64_t>(description.size()),
                          .dtype = DType::kUint8});
  message.op = ShardOp::kState;
  for (int bucket = 0; bucket < state.buckets(); ++bucket) {
    message.bucket = state.description().first_bucket + bucket;
    message.step = state.VersionOf(bucket);
    message.value = static_cast<double>(state.UpdatesOf(bucket));
    for (int part = 0; part < state.parts(); ++part) {
      message.part = static_cast<StatePart>(part);
      const absl::Span<const float> values = state.Values(bucket, message.part);
      const MessageElements elements = {
          .data = reinterpret_cast<const std::byte*>(values.data()),
          .count = static_cast<int64_t>(values.size())};
      // Values that are updated in place may be updated before they have gone.
      if (state.options().is_in_place) {
        context_.loop.SendCopy(peer, message, elements);
      } else {
        context_.loop.Send(peer, message, elements);
      }
    }
  }
  if (run.is_primary() && PlacementOf(run.shard()).backup_rank == RankOf(peer))
    run.SetBackupReady();
}

absl::Status HostRun::Done(int peer, const ShardMessage& message) {
  Peer& done = PeerAt(peer);
  done.is_done = true;
  context_.loop.Leave(peer);
  if (done.role == Role::kGiver) return absl::OkStatus();
  if (end_.value_or(message.done) != message.done) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it ended otherwise than another worker did: ",
        static_cast<int>(message.done), " and ", static_cast<int>(*end_)));
  }
  end_ = message.done;
  for (const auto& run : runs_) run->Leave(RankOf(peer));
  if (--workers_left_ > 0) return absl::OkStatus();
  for (int taker = 0; taker < context_.loop.peers(); ++taker) {
    if (PeerAt(taker).role != Role::kTaker) continue;
    context_.loop.Send(taker, message);
    // It may go as soon as it has that.
    context_.loop.Leave(taker);
  }
  return absl::OkStatus();
}

}  // namespace ringmaster
