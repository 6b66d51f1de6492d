// SimTrainer in a job with shards: what it holds of them, and, with parameter
// servers, what a worker and a server say to each other. Unanswered messages
// are repeated, since the other side may not have heard of its start yet.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/simulator/bug.h"
#include "tests/simulator/sim_trainer.h"

namespace ringmaster::simulator {
namespace {

constexpr int64_t kResendTime = 20 * kMillisecond;

}  // namespace

int SimTrainer::RankOfSlot(int slot) const {
  const std::vector<int>& slots = assignment_.slots;
  const auto it = std::find(slots.begin(), slots.end(), slot);
  return it == slots.end() ? -1 : static_cast<int>(it - slots.begin());
}

bool SimTrainer::IsPlacedHere(const ShardPlacement& shard,
                              bool or_source) const {
  return shard.primary_rank == rank() || shard.backup_rank == rank() ||
         (or_source && shard.source_rank == rank());
}

bool SimTrainer::HasShard(int shard) const {
  return std::any_of(
      shards_.begin(), shards_.end(),
      [shard](const HeldShard& held) { return held.shard == shard; });
}

std::vector<HeldShard> SimTrainer::shards() const {
  if (!has_placed_shards_) return shards_;
  std::vector<HeldShard> held;
  const std::vector<ShardPlacement>& placements = *assignment_.placements;
  for (size_t i = 0; i < placements.size(); ++i) {
    if (!IsPlacedHere(placements[i], /*or_source=*/false)) continue;
    held.push_back({static_cast<int>(i), position_.complete});
  }
  if (AreAllPlaced()) return held;
  for (const HeldShard& old : shards_) {
    if (!IsPlacedHere(PlacementOf(old.shard), /*or_source=*/false))
      held.push_back(old);
  }
  return held;
}

bool SimTrainer::AreAllPlaced() const {
  return position_.complete >= assignment_.resume_step + 2;
}

// Those that it holds as of the resume step, also if it is to hold them no more:
// until others have them. If they are made anew, none.
void SimTrainer::PrepareShards() {
  const int step = assignment_.resume_step;
  std::vector<HeldShard> kept;
  for (const HeldShard& held : shards_) {
    const ShardPlacement& shard = PlacementOf(held.shard);
    if (shard.source_rank < 0 || held.complete_step < step) continue;
    if (context_.bug == Bug::kCopiesDropped &&
        !IsPlacedHere(shard, /*or_source=*/true))
      continue;
    kept.push_back({held.shard, step});
  }
  shards_ = std::move(kept);
}

int SimTrainer::AwaitedRank() const {
  switch (stage_) {
    case Stage::kCopying:
    case Stage::kCommitting:
      return world_size() > 1 ? prev_rank() : -1;
    case Stage::kConnecting:
      return -1;
    case Stage::kPulling:
      return assignment_.placements->front().primary_rank;
    case Stage::kReducing:
      break;
    case Stage::kServing: {
      if (missing_ != 0) return std::countr_zero(missing_);
      const auto behind = std::min_element(pushed_.begin(), pushed_.end());
      const bool is_behind =
          *behind < *std::max_element(pushed_.begin(), pushed_.end());
      return is_behind ? static_cast<int>(behind - pushed_.begin()) : -1;
    }
    default:
      return -1;
  }
  if (!HasServers()) return world_size() > 1 ? prev_rank() : -1;
  for (const ShardPlacement& shard : *assignment_.placements) {
    for (const int rank : {shard.primary_rank, shard.backup_rank}) {
      if (rank >= 0 && (answered_ & (1u << rank)) == 0) return rank;
    }
  }
  return -1;
}

// ---- A worker.

// It has no state of its own: it pulls.
bool SimTrainer::ResumeBesideServers(int step) {
  if (has_state_ && step == position_.complete &&
      step == position_.applied + 1) {
    Apply(/*run_generation=*/0);
  }
  has_state_ = true;
  position_.applied = position_.complete = step;
  position_.hash = ledger().HashAfter(0);
  return true;
}

void SimTrainer::Pull() {
  Send(SlotAt(assignment_.placements->front().primary_rank), FrameKind::kPull);
  StartTimer(kResend, kResendTime);
}

void SimTrainer::TakePulled(const Frame& frame) {
  if (stage_ != Stage::kPulling) return;
  position_.hash = frame.value;
  ledger().OnPulled(generation(), frame.step, context_.now);
  ledger().OnStateHeld(generation(), rank(), frame.step);
  post_(agent::TrainerAdvanced{generation()});
  BeginStep();
}

void SimTrainer::Push() {
  if (stage_ != Stage::kReducing) return;
  uint32_t told = answered_;
  for (const ShardPlacement& shard : *assignment_.placements) {
    for (const int to : {shard.primary_rank, shard.backup_rank}) {
      if (to < 0 || (told & (1u << to)) != 0) continue;
      told |= 1u << to;
      Send(SlotAt(to), FrameKind::kPush, position_.applied + 1, contribution_);
    }
  }
  StartTimer(kResend, kResendTime);
}

void SimTrainer::TakeUpdated(const Frame& frame) {
  if (stage_ != Stage::kReducing || frame.step != position_.applied + 1) return;
  if (answered_ != 0 && updated_ != frame.value) {
    ledger().Fail(Invariant::kEachSampleOnce,
                  "parameter servers made different sums of a step");
  }
  updated_ = frame.value;
  answered_ |= 1u << frame.origin;
  wants_drain_ |= frame.wants_drain;
  if (AwaitedRank() < 0) MakeComplete(updated_);
}

// ---- A server.

bool SimTrainer::ResumeAsServer(int step) {
  const std::vector<ShardPlacement>& placements = *assignment_.placements;
  const bool is_source = std::any_of(
      placements.begin(), placements.end(),
      [this](const ShardPlacement& p) { return p.source_rank == rank(); });
  if (has_state_ && position_.complete == step + 1) {
    position_.complete = step;
    position_.hash = hash_before_;
  }
  const bool holds_it = has_state_ && position_.complete == step;
  has_state_ = true;
  position_.applied = position_.complete = step;
  if (!holds_it) shards_.clear();
  return holds_it || !is_source;
}

void SimTrainer::BeginServing() {
  stage_ = Stage::kServing;
  last_progress_ = context_.now;
  missing_ = done_ = 0;
  pushed_.assign(static_cast<size_t>(world_size()), assignment_.resume_step);
  contributions_.assign(static_cast<size_t>(world_size()), 0);
  bool is_needed = false;
  const std::vector<ShardPlacement>& placements = *assignment_.placements;
  for (size_t i = 0; i < placements.size(); ++i) {
    if (!IsPlacedHere(placements[i], /*or_source=*/false)) continue;
    is_needed = true;
    const auto shard = static_cast<int>(i);
    if (HasShard(shard)) continue;
    if (placements[i].source_rank < 0) {
      position_.hash = ledger().HashAfter(0);
      shards_.push_back({shard, 0});
    } else {
      missing_ |= 1u << placements[i].source_rank;
    }
  }
  if (!is_needed) ledger().OnUnneeded(generation(), rank());
  post_(agent::TrainerAdvanced{generation()});
  if (missing_ == 0) return;
  context_.Reached(Moment::kStateCopy, slot_);
  StartTimer(kPatience,
             absl::ToInt64Nanoseconds(context_.shape.config.connect_timeout));
  RequestCopies();
}

void SimTrainer::RequestCopies() {
  for (int from = 0; from < static_cast<int>(assignment_.slots.size());
       ++from) {
    if ((missing_ & (1u << from)) != 0) Send(SlotAt(from), FrameKind::kPull);
  }
  StartTimer(kResend, kResendTime);
}

void SimTrainer::TakeCopy(const Frame& frame) {
  if ((missing_ & (1u << frame.origin)) == 0) return;
  missing_ &= ~(1u << frame.origin);
  position_.hash = frame.value;
  last_progress_ = context_.now;
  const std::vector<ShardPlacement>& placements = *assignment_.placements;
  for (size_t i = 0; i < placements.size(); ++i) {
    const auto shard = static_cast<int>(i);
    if (placements[i].source_rank == frame.origin &&
        IsPlacedHere(placements[i], /*or_source=*/false) && !HasShard(shard)) {
      shards_.push_back({shard, assignment_.resume_step});
    }
  }
  post_(agent::TrainerAdvanced{generation()});
}

// Workers and takers of copies ask for what there was when the generation began.
void SimTrainer::AnswerPull(int from) {
  const int step = assignment_.resume_step;
  const bool is_worker = RankOfSlot(from) < world_size();
  const bool is_held = is_worker ? missing_ == 0 : !shards_.empty();
  if (!is_held || position_.complete > step + 1) return;
  Send(from, FrameKind::kPulled, step,
       position_.complete == step ? position_.hash : hash_before_);
}

void SimTrainer::TakePush(const Frame& frame) {
  const int step = position_.complete + 1;
  if (frame.step == position_.complete &&
      frame.step > assignment_.resume_step) {
    Send(SlotAt(frame.origin), FrameKind::kUpdated, frame.step, newest_sum_);
    return;
  }
  if (frame.step != step || missing_ != 0) return;
  const auto worker = static_cast<size_t>(frame.origin);
  pushed_[worker] = step;
  contributions_[worker] = frame.value;
  if (std::count(pushed_.begin(), pushed_.end(), step) == world_size())
    MakeUpdate(step);
}

void SimTrainer::MakeUpdate(int step) {
  newest_sum_ = 0;
  for (const uint64_t part : contributions_) newest_sum_ += part;
  hash_before_ = std::exchange(position_.hash,
                               Ledger::Fold(position_.hash, step, newest_sum_));
  position_.applied = position_.complete = step;
  last_progress_ = context_.now;
  std::erase_if(shards_, [this](const HeldShard& held) {
    return AreAllPlaced() &&
           !IsPlacedHere(PlacementOf(held.shard), /*or_source=*/true);
  });
  for (HeldShard& held : shards_) {
    if (IsPlacedHere(PlacementOf(held.shard), /*or_source=*/false))
      held.complete_step = step;
  }
  ledger().OnComplete(generation(), rank(), step);
  for (int worker = 0; worker < world_size(); ++worker) {
    Send(SlotAt(worker), FrameKind::kUpdated, step, newest_sum_);
  }
}

void SimTrainer::TakeDone(const Frame& frame) {
  done_ |= 1u << frame.origin;
  if (done_ != (1u << world_size()) - 1) return;
  EndRun(static_cast<agent::RunEnd>(frame.value));
}

void SimTrainer::OnFrameAsServer(int from, const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::kPull:
      AnswerPull(from);
      return;
    case FrameKind::kPulled:
      TakeCopy(frame);
      return;
    case FrameKind::kPush:
      TakePush(frame);
      return;
    case FrameKind::kClosed:
      if (frame.step == 1) {
        TakeDone(frame);
      } else {
        FailPeer(frame.origin, v1::LINK_FAILURE_CLOSED);
      }
      return;
    default:
      return;
  }
}

}  // namespace ringmaster::simulator
