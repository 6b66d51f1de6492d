#include "tests/simulator/sim_trainer.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ringmaster::simulator {
namespace {

int64_t Nanos(absl::Duration duration) {
  return absl::ToInt64Nanoseconds(duration);
}

}  // namespace

// ---- The process.

void SimTrainer::Restart(uint32_t life) {
  life_ = life;
  saved_step_ = 0;
  ++version_;
  stage_ = Stage::kIdle;
  assignment_ = {};
  has_state_ = is_loaded_ = false;
  position_ = {};
  shards_.clear();
  has_placed_shards_ = false;
  is_aborted_ = is_deaf_ = is_alone_ = false;
  wants_stop_ = wants_drain_ = wants_leave_ = false;
  slow_until_ = 0;
  collective_sequence_ = 0;
  early_connect_generation_ = 0;
}

void SimTrainer::Die(bool is_silent) {
  if (!is_silent && IsRunning()) CloseConnections(/*is_clean=*/false);
  ledger().OnHolderLost(slot_);
  ++version_;
  stage_ = Stage::kIdle;
}

void SimTrainer::Release() {
  ++version_;
  ledger().OnHolderLost(slot_);
  stage_ = Stage::kIdle;
  has_state_ = is_loaded_ = false;
  position_ = {};
  shards_.clear();
  has_placed_shards_ = false;
  wants_stop_ = false;
}

void SimTrainer::StartTimer(Timer timer, int64_t delay) {
  SimEvent event;
  event.kind = EventKind::kTrainerTimer;
  event.slot = static_cast<int8_t>(slot_);
  event.version = version_;
  event.detail = timer;
  context_.After(delay, event);
}

void SimTrainer::OnTimer(uint32_t version, uint8_t detail) {
  if (version != version_) return;
  switch (static_cast<Timer>(detail)) {
    case kPrepared:
      FinishPreparing(/*is_aborted=*/false);
      return;
    case kComputed:
      if (stage_ != Stage::kComputing) return;
      stage_ = Stage::kReducing;
      last_progress_ = context_.now;
      TryReduce();
      return;
    case kCopied:
      if (stage_ != Stage::kCopying) return;
      SendNext(FrameKind::kState, assignment_.resume_step, position_.hash);
      post_(agent::TrainerAdvanced{generation()});
      BeginStep();
      return;
    case kAborted:
      if (stage_ == Stage::kPreparing) {
        FinishPreparing(/*is_aborted=*/true);
      } else if (IsRunning()) {
        EndRun(agent::RunEnd::kInterrupted);
      }
      return;
    case kLoaded:
      if (stage_ != Stage::kCopying) return;
      is_loaded_ = true;
      position_.complete = ledger().saved_step();
      position_.complete_generation = generation();
      BeginStep();
      return;
    case kSaved:
      if (stage_ != Stage::kComputing) return;
      Save();
      EndRun(agent::RunEnd::kStopped);
      return;
    case kResend:
      if (stage_ == Stage::kPulling) Pull();
      if (stage_ == Stage::kReducing) Push();
      if (stage_ == Stage::kServing && missing_ != 0) RequestCopies();
      return;
    case kPatience: {
      // The coordinator knows how long a step may take.
      if (stage_ == Stage::kServing && missing_ == 0) return;
      const bool is_waiting = stage_ != Stage::kComputing;
      const bool begins = stage_ <= Stage::kServing;
      const absl::Duration limit =
          begins ? context_.shape.config.connect_timeout
                 : context_.shape.config.collective_timeout;
      const int64_t due = last_progress_ + Nanos(limit);
      if (is_waiting && context_.now >= due) {
        const bool lacks_next = stage_ == Stage::kConnecting && !has_next_;
        const int awaited =
            stage_ == Stage::kConnecting ? prev_rank() : AwaitedRank();
        FailPeer(lacks_next ? next_rank() : awaited,
                 v1::LINK_FAILURE_NO_ANSWER);
      } else {
        StartTimer(kPatience, std::max(due - context_.now, 10 * kMillisecond));
      }
      return;
    }
  }
}

// ---- Preparing.

void SimTrainer::Prepare(const agent::AssignmentPayload& payload) {
  ++version_;
  shards_ = shards();
  has_placed_shards_ = false;
  assignment_ = payload;
  if (const int job = JobOfId(payload.job_id); job != job_) {
    job_ = job;
    has_state_ = is_loaded_ = false;
    position_ = {};
    shards_.clear();
  }
  stage_ = Stage::kPreparing;
  is_aborted_ = is_deaf_ = is_alone_ = false;
  wants_stop_ = wants_drain_ = wants_leave_ = false;
  if (!assignment_.is_rehearsal) {
    ledger().OnPrepare(slot_, life_, generation(), rank(),
                       static_cast<int>(assignment_.slots.size()));
  }
  context_.Reached(Moment::kPreparing, slot_);
  const int64_t longest =
      has_state_ ? 5 * kMillisecond : context_.shape.prepare_time;
  StartTimer(kPrepared, context_.random.Between(0, longest));
}

bool SimTrainer::ResumeAt(int step) {
  if (IsServer()) return ResumeAsServer(step);
  if (HasServers()) return ResumeBesideServers(step);
  if (is_loaded_) {
    // It is read again, unless others go on from it.
    if (step == position_.complete) {
      AdoptLoaded();
    } else if (step == 0) {
      has_state_ = is_loaded_ = false;
    }
  }
  if (!has_state_ || assignment_.is_newcomer) {
    has_state_ = true;
    is_loaded_ = false;
    position_ = {};
    position_.hash = ledger().HashAfter(0);
    if (assignment_.is_newcomer) return true;
  }
  // Its job was set back.
  if (assignment_.placements != nullptr && step == 0) {
    position_ = {};
    position_.hash = ledger().HashAfter(0);
  }
  if (step == position_.complete && step == position_.applied + 1) {
    Apply(/*run_generation=*/0);
  }
  if (step != position_.applied) return false;
  position_.complete = position_.applied;
  return true;
}

absl::Status SimTrainer::OwnFailure() const {
  return WithExitCode(
      absl::UnavailableError("a file of the data set cannot be read"),
      context_.bug == Bug::kCalledUsage ? ExitCode::kUsage
                                        : ExitCode::kUnreadable);
}

void SimTrainer::FinishPreparing(bool is_aborted) {
  if (!is_aborted && context_.IsBad(slot_, BadHost::kNoMemory)) {
    SimEvent event;
    event.kind = EventKind::kOutOfMemory;
    event.slot = static_cast<int8_t>(slot_);
    event.version = life_;
    context_.After(0, event);
    return;
  }
  // An abort may come before the position was settled, or after.
  const bool is_settled = !is_aborted || context_.random.Chance(50);
  const bool is_good = is_settled && ResumeAt(assignment_.resume_step);
  const agent::StepPosition position{position_.applied, position_.complete};
  if (assignment_.placements != nullptr) PrepareShards();
  ++version_;
  const bool has_data = !context_.IsBad(slot_, BadHost::kNoData);
  if (is_good && !is_aborted && has_data) {
    stage_ = Stage::kPrepared;
    if (!assignment_.is_rehearsal) {
      ledger().OnStateHeld(generation(), rank(), position_.complete);
    }
    agent::TrainerPrepared prepared;
    prepared.generation = generation();
    prepared.plan_hash = 1;
    prepared.data_fingerprint = 1;
    prepared.position = position;
    prepared.shards = shards_;
    post_(std::move(prepared));
    return;
  }
  if (is_settled && !is_good) {
    ledger().OnResumeRefused(slot_, generation(), assignment_.resume_step,
                             position_);
  }
  stage_ = Stage::kOver;
  agent::TrainerPrepareFailed failed;
  failed.generation = generation();
  failed.status = is_aborted  ? absl::AbortedError("the generation is over")
                  : !has_data ? OwnFailure()
                              : absl::FailedPreconditionError(
                                    "the resume step is neither applied nor "
                                    "complete");
  failed.position = position;
  failed.shards = shards_;
  post_(std::move(failed));
}

void SimTrainer::Abort(int generation) {
  if (generation < this->generation() || is_aborted_) return;
  if (stage_ != Stage::kPreparing && !IsRunning()) return;
  is_aborted_ = true;
  is_deaf_ = context_.random.Chance(50);
  StartTimer(kAborted, context_.random.Between(0, 10) * kMillisecond);
}

// ---- Connecting.

void SimTrainer::Send(int to, FrameKind kind, int step, uint64_t value) {
  Frame frame;
  frame.generation = generation();
  frame.kind = kind;
  frame.step = step;
  frame.value = value;
  frame.origin = static_cast<int8_t>(rank());
  frame.wants_stop = wants_stop_;
  frame.wants_drain = wants_drain_;
  frame.wants_leave = wants_leave_;
  links_.Send(slot_, to, frame);
}

void SimTrainer::Run(int generation) {
  if (stage_ != Stage::kPrepared || generation != this->generation()) return;
  ++version_;
  if (IsServer()) {
    BeginServing();
    return;
  }
  stage_ = Stage::kConnecting;
  last_progress_ = context_.now;
  has_prev_ = has_next_ = world_size() == 1;
  has_early_state_ = false;
  closed_rank_ = -1;
  is_first_step_ = true;
  partial_step_ = 0;
  collective_sequence_ = 0;
  context_.Reached(Moment::kConnecting, slot_);
  post_(agent::TrainerAdvanced{this->generation()});
  StartTimer(kPatience, Nanos(context_.shape.config.connect_timeout));
  if (world_size() > 1) {
    SendNext(FrameKind::kConnect);
    if (early_connect_generation_ == generation &&
        early_connect_from_ == assignment_.prev_slot) {
      has_prev_ = true;
      Send(assignment_.prev_slot, FrameKind::kAccept);
    }
  }
  CheckConnected();
}

void SimTrainer::CheckConnected() {
  if (stage_ != Stage::kConnecting || !has_prev_ || !has_next_) return;
  last_progress_ = context_.now;
  post_(agent::TrainerAdvanced{generation()});
  if (closed_rank_ >= 0 && !is_aborted_) {
    stage_ = Stage::kCopying;
    FailPeer(closed_rank_, v1::LINK_FAILURE_CLOSED);
    return;
  }
  if (HasServers()) {
    stage_ = Stage::kPulling;
    context_.Reached(Moment::kStateCopy, slot_);
    StartTimer(kPatience, Nanos(context_.shape.config.connect_timeout));
    Pull();
    return;
  }
  if (assignment_.state_source_rank < 0 || world_size() == 1) {
    BeginStep();
    return;
  }
  stage_ = Stage::kCopying;
  context_.Reached(Moment::kStateCopy, slot_);
  if (rank() == assignment_.state_source_rank) {
    StartTimer(kCopied, context_.random.Between(1, job().copy_time));
  } else if (has_early_state_) {
    TakeState(early_state_);
  }
}

void SimTrainer::TakeState(const Frame& frame) {
  if (stage_ == Stage::kConnecting) {
    has_early_state_ = true;
    early_state_ = frame;
    return;
  }
  if (stage_ != Stage::kCopying) return;
  if (assignment_.is_newcomer) {
    position_.applied = position_.complete = frame.step;
    if (context_.bug != Bug::kStateNotCopied) position_.hash = frame.value;
  }
  ledger().OnStateHeld(generation(), rank(), frame.step);
  if (next_rank() != assignment_.state_source_rank) {
    SendNext(FrameKind::kState, frame.step, frame.value);
  }
  post_(agent::TrainerAdvanced{generation()});
  BeginStep();
}

// ---- The end of a run.

void SimTrainer::CloseConnections(bool is_clean, agent::RunEnd end) {
  const int first = IsServer() && !is_clean ? 0 : world_size();
  const auto members = static_cast<int>(assignment_.slots.size());
  for (int other = first; other < members; ++other) {
    if (other == rank() || (IsServer() && is_clean)) continue;
    Send(SlotAt(other), FrameKind::kClosed, is_clean ? 1 : 0,
         static_cast<uint64_t>(end));
  }
  if (world_size() == 1 || IsServer()) return;
  SendNext(FrameKind::kClosed, is_clean ? 1 : 0);
  if (world_size() > 2) {
    Send(assignment_.prev_slot, FrameKind::kClosed, is_clean ? 1 : 0);
  }
}

void SimTrainer::EndRun(agent::RunEnd end, int peer_rank,
                        v1::LinkFailure failure) {
  const bool is_unreached = stage_ == Stage::kConnecting;
  CloseConnections(end == agent::RunEnd::kFinished ||
                       end == agent::RunEnd::kStopped ||
                       end == agent::RunEnd::kDrained,
                   end);
  ++version_;
  stage_ = Stage::kOver;
  agent::TrainerEnded ended;
  ended.generation = generation();
  ended.end = end;
  ended.peer_rank = peer_rank;
  ended.is_unreached = is_unreached;
  ended.failure = failure;
  if (peer_rank >= 0) ended.status = absl::UnavailableError("a peer failed");
  if (end == agent::RunEnd::kFailed) ended.status = OwnFailure();
  ended.position = {position_.applied, position_.complete};
  ended.parameters_hash = position_.hash;
  ended.shards = shards();
  ended.saved_step = saved_step_;
  post_(std::move(ended));
}

void SimTrainer::FailPeer(int peer_rank, v1::LinkFailure failure) {
  if (is_aborted_) return;  // it ends anyway
  if (context_.bug == Bug::kEvictedGoesOn && stage_ >= Stage::kComputing) {
    is_alone_ = true;
    if (stage_ == Stage::kReducing) TryReduce();
    TryApply();
    return;
  }
  EndRun(agent::RunEnd::kPeerFailed, peer_rank, failure);
}

void SimTrainer::OnLinkFailed(int peer, v1::LinkFailure failure) {
  if (!IsRunning() || is_aborted_) return;
  const int peer_rank = RankOfSlot(peer);
  if (peer_rank >= 0 && peer_rank != rank() &&
      (IsServer() || peer_rank >= world_size())) {
    FailPeer(peer_rank, failure);
    return;
  }
  if (world_size() == 1) return;
  if (peer == assignment_.prev_slot) {
    FailPeer(prev_rank(), failure);
  } else if (peer == assignment_.next_slot) {
    FailPeer(next_rank(), failure);
  }
}

void SimTrainer::OnFrame(int from, const Frame& frame) {
  if (frame.kind == FrameKind::kConnect && frame.generation >= generation() &&
      !(IsRunning() && frame.generation == generation())) {
    early_connect_generation_ = frame.generation;
    early_connect_from_ = from;
    return;
  }
  if (!IsRunning() || (is_aborted_ && is_deaf_) || is_alone_) return;
  if (frame.generation != generation() && context_.bug != Bug::kFenceOff) {
    return;  // The fence.
  }
  ledger().OnFrameTaken(slot_, frame.generation, generation());
  if (IsServer()) {
    OnFrameAsServer(from, frame);
    return;
  }
  const bool is_prev = from == assignment_.prev_slot;
  const bool is_next = from == assignment_.next_slot;
  const bool is_server = frame.origin >= world_size();
  if (!is_prev && !is_next && !is_server) return;
  switch (frame.kind) {
    case FrameKind::kConnect:
      has_prev_ = true;
      Send(from, FrameKind::kAccept);
      CheckConnected();
      return;
    case FrameKind::kAccept:
      has_next_ = true;
      CheckConnected();
      return;
    case FrameKind::kState:
      TakeState(frame);
      return;
    case FrameKind::kPartial:
      partial_step_ = frame.step;
      partial_ = frame.value;
      TryReduce();
      return;
    case FrameKind::kTotal:
      if (stage_ != Stage::kReducing || frame.step != position_.applied + 1) {
        return;
      }
      if (rank() + 1 != world_size() - 1) {
        SendNext(FrameKind::kTotal, frame.step, frame.value);
      }
      MakeComplete(frame.value);
      return;
    case FrameKind::kRecord:
      TakeRecord(frame);
      return;
    case FrameKind::kClosed: {
      if (frame.step == 1) return;  // It has all that it needs.
      const int peer_rank = is_server ? frame.origin
                            : is_prev ? prev_rank()
                                      : next_rank();
      if (stage_ == Stage::kConnecting) {
        // Noticed once all are connected, which the time for that bounds.
        closed_rank_ = peer_rank;
      } else {
        FailPeer(peer_rank, v1::LINK_FAILURE_CLOSED);
      }
      return;
    }
    case FrameKind::kPulled:
      TakePulled(frame);
      return;
    case FrameKind::kUpdated:
      TakeUpdated(frame);
      return;
    case FrameKind::kPull:
    case FrameKind::kPush:
      return;  // for servers
  }
}

SimProgress SimTrainer::progress() const {
  SimProgress progress;
  progress.generation = generation();
  progress.applied = position_.applied;
  progress.is_connecting = stage_ == Stage::kConnecting;
  progress.is_copying = stage_ == Stage::kCopying ||
                        stage_ == Stage::kPulling ||
                        (stage_ == Stage::kServing && missing_ != 0);
  progress.collective_sequence = collective_sequence_;
  progress.step_time = job().step_time;
  progress.waiting_for_rank = AwaitedRank();
  return progress;
}

}  // namespace ringmaster::simulator
