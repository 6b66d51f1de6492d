// A step of SimTrainer: compute, reduce, commit, apply.
#include <cstdint>
#include <utility>

#include "tests/simulator/sim_trainer.h"

namespace ringmaster::simulator {

void SimTrainer::EndWithoutStep() {
  has_placed_shards_ = assignment_.placements != nullptr;
  if (!assignment_.saves) {
    EndRun(agent::RunEnd::kStopped);
    return;
  }
  stage_ = Stage::kComputing;
  StartTimer(kSaved, context_.random.Between(1, 10 * job().copy_time));
}

bool SimTrainer::BeginsFromFiles() {
  if (position_.applied > 0 || position_.complete > 0 ||
      ledger().saved_step() == 0 || context_.shape.holders != Holders::kRanks) {
    return false;
  }
  stage_ = Stage::kCopying;
  StartTimer(kLoaded, context_.random.Between(1, job().copy_time));
  return true;
}

void SimTrainer::AdoptLoaded() {
  is_loaded_ = false;
  position_.applied = position_.complete;
  position_.hash = ledger().HashAfter(position_.applied);
  ledger().OnLoaded(generation(), position_.applied);
}

void SimTrainer::Save() {
  if (rank() != 0 || !job().keeps_checkpoints) return;
  saved_step_ = position_.applied;
  ledger().OnSaved(saved_step_);
  v1::Notice notice;
  notice.set_kind(v1::NOTICE_KIND_CHECKPOINT_WRITTEN);
  notice.set_generation(generation());
  notice.set_step(saved_step_);
  post_(agent::TrainerNoticed{std::move(notice)});
}

void SimTrainer::BeginStep() {
  if (assignment_.makes_no_step) {
    EndWithoutStep();
    return;
  }
  if (BeginsFromFiles()) return;
  if (is_loaded_ && position_.complete >= job().total_steps) AdoptLoaded();
  if (position_.applied >= job().total_steps) {
    Save();
    EndRun(agent::RunEnd::kFinished);
    return;
  }
  has_placed_shards_ = assignment_.placements != nullptr;
  if (context_.IsBad(slot_, BadHost::kBadDisk) &&
      context_.late_random.Chance(3)) {
    ledger().OnOwnFailure();
    EndRun(agent::RunEnd::kFailed);
    return;
  }
  stage_ = Stage::kComputing;
  last_progress_ = context_.now;
  records_ = 0;
  stop_agreed_ = drain_agreed_ = false;
  leavers_ = 0;
  int64_t time = job().step_time;
  time = time / 2 + context_.random.Between(0, time / 2);
  if (context_.now < slow_until_) time *= 10;
  StartTimer(kComputed, time);
}

void SimTrainer::TryReduce() {
  if (stage_ != Stage::kReducing) return;
  if (is_loaded_) AdoptLoaded();
  const int step = position_.applied + 1;
  if (HasServers()) {
    contribution_ =
        ledger().SamplesOf(step, kGlobalBatch * rank() / world_size(),
                           kGlobalBatch * (rank() + 1) / world_size());
    answered_ = 0;
    Push();
    return;
  }
  int order = step;
  if (context_.bug == Bug::kSamplesFromStart) {
    order = step - assignment_.resume_step;
  }
  const int first = kGlobalBatch * rank() / world_size();
  const int last = kGlobalBatch * (rank() + 1) / world_size();
  const bool is_alone = world_size() == 1 || is_alone_;
  if (is_alone) {
    MakeComplete(ledger().SamplesOf(order, 0, kGlobalBatch));
    return;
  }
  if (rank() > 0 && partial_step_ != step) return;
  const uint64_t sum =
      ledger().SamplesOf(order, first, last) + (rank() > 0 ? partial_ : 0);
  partial_step_ = 0;
  if (IsLastRank()) {
    SendNext(FrameKind::kTotal, step, sum);
    MakeComplete(sum);
    return;
  }
  SendNext(FrameKind::kPartial, step, sum);
  if (context_.bug == Bug::kAppliedBeforeComplete && rank() == 0) {
    MakeComplete(ledger().SamplesOf(step, 0, kGlobalBatch));
    records_ = (1u << world_size()) - 1;
    TryApply();
  }
}

void SimTrainer::MakeComplete(uint64_t total) {
  const bool has_peers = assignment_.slots.size() > 1;
  if (has_peers && context_.IsMute(slot_) && !is_aborted_) {
    EndRun(agent::RunEnd::kPeerFailed);
    return;
  }
  stage_ = Stage::kCommitting;
  last_progress_ = context_.now;
  position_.complete = position_.applied + 1;
  position_.complete_generation = generation();
  position_.reduced = total;
  ++collective_sequence_;
  if (!is_alone_) {
    ledger().OnComplete(generation(), rank(), position_.complete);
  }
  context_.Reached(Moment::kCommitExchange, slot_);
  records_ |= 1u << rank();
  stop_agreed_ |= wants_stop_;
  drain_agreed_ |= wants_drain_;
  if (wants_leave_) leavers_ |= 1u << rank();
  if (world_size() > 1) SendNext(FrameKind::kRecord, position_.complete);
  TryApply();
}

void SimTrainer::TakeRecord(const Frame& frame) {
  if (frame.step != position_.applied + 1) return;
  last_progress_ = context_.now;
  records_ |= 1u << frame.origin;
  stop_agreed_ |= frame.wants_stop;
  drain_agreed_ |= frame.wants_drain;
  if (frame.wants_leave) leavers_ |= 1u << frame.origin;
  if (next_rank() != frame.origin) {
    Frame forwarded = frame;
    links_.Send(slot_, assignment_.next_slot, forwarded);
  }
  TryApply();
}

void SimTrainer::TryApply() {
  if (stage_ != Stage::kCommitting) return;
  uint32_t wanted = (1u << world_size()) - 1;
  if (is_alone_) wanted = 1u << rank();
  if (context_.bug == Bug::kMissingRecords && world_size() > 2 &&
      (records_ & ~(1u << rank())) != 0) {
    wanted &= records_;
  }
  if ((records_ & wanted) != wanted) return;
  Apply(generation());
  ++collective_sequence_;
  AfterStep();
}

void SimTrainer::Apply(int run_generation) {
  const int step = position_.applied + 1;
  position_.hash = Ledger::Fold(position_.hash, step, position_.reduced);
  position_.applied = step;
  ledger().OnApply(slot_, run_generation, position_, context_.now);
}

void SimTrainer::AfterStep() {
  if (std::exchange(is_first_step_, false)) {
    post_(agent::TrainerAdvanced{generation()});
  }
  stop_agreed_ |= leavers_ == (1u << world_size()) - 1;
  if (position_.applied >= job().total_steps) {
    Save();
    EndRun(agent::RunEnd::kFinished);
  } else if (stop_agreed_) {
    Save();
    EndRun(agent::RunEnd::kStopped);
  } else if (drain_agreed_) {
    EndRun(agent::RunEnd::kDrained);
  } else {
    BeginStep();
  }
}

}  // namespace ringmaster::simulator
