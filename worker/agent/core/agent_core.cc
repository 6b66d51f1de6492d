#include "worker/agent/core/agent_core.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ringmaster::agent {

std::string_view EventName(const Event& event) {
  static constexpr std::array<std::string_view, std::variant_size_v<Event>>
      kNames = {"session-up", "session-down",   "assign", "start",
                "halt",       "stop",           "pause",  "advice",
                "release",    "trace",          "log",    "probe",
                "prepared",   "prepare-failed", "ended",  "notice",
                "advanced",   "signal",         "tick"};
  return kNames[event.index()];
}

std::string_view StateName(AgentState state) {
  switch (state) {
    case AgentState::kConnecting:
      return "connecting";
    case AgentState::kIdle:
      return "idle";
    case AgentState::kPreparing:
      return "preparing";
    case AgentState::kPrepared:
      return "prepared";
    case AgentState::kRunning:
      return "running";
    case AgentState::kPaused:
      return "paused";
    case AgentState::kHalting:
      return "halting";
    case AgentState::kHalted:
      return "halted";
    case AgentState::kExited:
      return "exited";
  }
  return "?";
}

AgentCore::AgentCore(AgentConfig config, MonotonicTime now)
    : config_(std::move(config)),
      now_(now),
      opened_at_(now),
      retry_at_(now),
      down_since_(now) {}

std::vector<Action> AgentCore::Handle(const Event& event, MonotonicTime now) {
  now_ = now;
  actions_.clear();
  if (state_ == AgentState::kExited) return {};
  std::visit([this](const auto& e) { On(e); }, event);
  return std::move(actions_);
}

void AgentCore::Say(Severity severity, std::string_view event,
                    std::string message) {
  Do(Log{severity, event, std::move(message)});
}

// ---- The generation.

void AgentCore::Report() {
  // First, so that nobody gives it shards as it tells that it has halted.
  if (leave_) SayLeaving();
  switch (state_) {
    case AgentState::kPrepared:
      Send(SendPrepared{generation_, prepared_.plan_hash,
                        prepared_.data_fingerprint, prepared_.summary,
                        prepared_.data});
      break;
    case AgentState::kPaused:
      ReportPaused();
      break;
    case AgentState::kHalted:
      SayHalted();
      break;
    default:
      break;
  }
}

void AgentCore::SayHalted() {
  Send(SendHalted{generation_, position_, shards_, can_go_on_});
}

void AgentCore::ReportPaused() {
  switch (ended_.end) {
    case RunEnd::kFinished:
    case RunEnd::kStopped:
      Send(SendFinished{generation_, position_.applied_step,
                        ended_.parameters_hash,
                        ended_.end == RunEnd::kStopped});
      break;
    case RunEnd::kPeerFailed:
      // If the trainer cannot tell which rank failed, none is named: the
      // neighbours of the failed rank see their connections close and report
      // it, and if none does, the coordinator sees that no rank makes progress.
      if (ended_.peer_rank < 0) break;
      Send(SendSuspicion{generation_, ended_.peer_rank,
                         std::string(ended_.status.message()),
                         position_.applied_step + 1, ended_.is_unreached,
                         ended_.holds_other_state, ended_.failure});
      break;
    case RunEnd::kFailed:
      Send(SendFailed{generation_, position_.applied_step,
                      ExitCodeOf(ended_.status),
                      std::string(ended_.status.message()),
                      IsOfJob(ended_.status), ended_.was_preparing});
      break;
    case RunEnd::kDrained:  // says that it leaves
    case RunEnd::kInterrupted:
      break;
  }
}

bool AgentCore::IsTrainerBusy() const {
  return state_ == AgentState::kPreparing || state_ == AgentState::kRunning ||
         state_ == AgentState::kHalting;
}

bool AgentCore::WaitsForRelease() const {
  return state_ == AgentState::kPaused &&
         (ended_.end == RunEnd::kFinished || ended_.end == RunEnd::kStopped);
}

void AgentCore::On(const AssignmentReceived& event) {
  const int64_t newest =
      pending_assignment_ ? pending_assignment_->generation : generation_;
  if (event.generation <= newest) return;
  if (leave_ && !MustStay()) {
    // The coordinator sent it before it read that we are leaving.
    if (!IsTrainerBusy()) LeaveNow();
    return;
  }
  if (!IsTrainerBusy()) {
    Adopt(event);
    return;
  }
  // The coordinator has formed a newer generation, so it no longer waits for an
  // answer in the older one.
  is_halt_unanswered_ = false;
  // A release that came earlier still drops the state.
  pending_assignment_ = event;
  AbortAndWait(absl::StrCat("generation ", event.generation, " follows"));
}

void AgentCore::Adopt(const AssignmentReceived& assignment) {
  if (!job_id_.empty() && job_id_ != assignment.job_id) Do(ReleaseTrainer{});
  if (job_id_ != assignment.job_id) {
    position_ = StepPosition{};
    shards_.clear();
    can_go_on_ = false;
  }
  job_id_ = assignment.job_id;
  generation_ = assignment.generation;
  rank_ = assignment.rank;
  formed_by_ = assignment.formed_by;
  payload_ = assignment.payload;
  is_rehearsal_ = assignment.is_rehearsal;
  is_stop_wanted_ = false;
  is_pause_wanted_ = false;
  pause_ = {};
  is_told_to_stop_ = false;
  is_stop_own_wish_ = false;
  state_ = AgentState::kPreparing;
  trainer_generation_ = generation_;
  Do(PrepareTrainer{generation_, assignment.payload});
  if (is_rehearsal_) {
    Say(Severity::kInfo, "job.rehearses",
        absl::StrCat("prepares for job ", job_id_,
                     ", which takes it in once it is ready"));
    return;
  }
  Say(Severity::kInfo, "job.assigned",
      absl::StrCat("job ", job_id_, ", generation ", generation_, ": rank ",
                   rank_, " of ", assignment.world_size, ", after step ",
                   assignment.resume_step));
}

void AgentCore::EndRehearsal() {
  if (!IsTrainerBusy()) {
    ReleaseToPool();
    return;
  }
  // Until its trainer returns nobody can use it.
  is_expelled_ = true;
  is_halt_unanswered_ = false;
  is_release_pending_ = true;
  AbortAndWait("the session that asked for it is gone");
}

void AgentCore::On(const StartReceived& event) {
  if (state_ != AgentState::kPrepared || event.generation != generation_) {
    return;
  }
  state_ = AgentState::kRunning;
  trainer_generation_ = generation_;
  Do(RunTrainer{generation_});
  if (is_stop_wanted_) Do(RequestStop{});
  if (leave_) RequestToLeave();
  if (is_pause_wanted_) Do(PauseRequest());
}

void AgentCore::On(const HaltReceived& event) {
  if (pending_assignment_ &&
      event.generation == pending_assignment_->generation) {
    // It is halted before it began; the older generation's trainer has yet to
    // return.
    generation_ = pending_assignment_->generation;
    rank_ = pending_assignment_->rank;
    formed_by_ = pending_assignment_->formed_by;
    is_rehearsal_ = false;
    payload_ = pending_assignment_->payload;
    pending_assignment_.reset();
    is_halt_unanswered_ = true;
    return;
  }
  if (event.generation != generation_ || generation_ == 0) return;
  switch (state_) {
    case AgentState::kPreparing:
    case AgentState::kRunning:
      Say(Severity::kInfo, "job.halted",
          absl::StrCat("generation ", generation_, " halted: ", event.summary));
      is_halt_unanswered_ = true;
      AbortAndWait(event.summary);
      break;
    case AgentState::kHalting:
      is_halt_unanswered_ |= !pending_assignment_ && !is_release_pending_;
      break;
      // No trainer is at work: the answer can go at once.
    case AgentState::kPrepared:
    case AgentState::kPaused:
      Say(Severity::kInfo, "job.halted",
          absl::StrCat("generation ", generation_, " halted: ", event.summary));
      [[fallthrough]];
    case AgentState::kHalted:
      state_ = AgentState::kHalted;
      SayHalted();
      // It was waiting for a release that cannot come now.
      if (leave_ && !MustStay()) LeaveNow();
      break;
    default:
      break;
  }
}

void AgentCore::AbortAndWait(std::string why) {
  if (state_ != AgentState::kHalting) {
    Do(AbortTrainer{trainer_generation_, std::move(why)});
    abort_deadline_ = now_ + config_.abort_timeout;
  }
  state_ = AgentState::kHalting;
}

void AgentCore::AfterAbort() {
  if (IsAwayUntilTrainerReturns()) down_since_ = retry_at_ = now_;
  state_ = AgentState::kHalted;
  const bool is_halt_unanswered = std::exchange(is_halt_unanswered_, false);
  if (std::exchange(is_release_pending_, false)) {
    if (!pending_assignment_ && !is_halt_unanswered) {
      ReleaseToPool();
      return;
    }
    DropState();  // and goes on in the generation that came meanwhile
  }
  const bool leaves = leave_ && (leave_->held_nothing || !MustStay());
  // It may hold more than when it was asked to leave.
  if (leave_ && !leaves && !leave_->is_said) SayLeaving();
  if (pending_assignment_ && !leaves) {
    Adopt(*std::exchange(pending_assignment_, std::nullopt));
  } else {
    if (is_halt_unanswered) SayHalted();
    if (leaves) LeaveNow();
  }
}

void AgentCore::On(const StopReceived& event) {
  is_told_to_stop_ |= event.generation == generation_;
  EndRunEarly(event.generation, RequestStop{}, is_stop_wanted_, "job.stopping",
              absl::StrCat("asked to stop: ", event.reason));
}

void AgentCore::On(const PauseReceived& event) {
  if (event.generation == generation_) {
    pause_ = {.is_let_go = event.leaves, .let_go_count = event.leavers};
  }
  EndRunEarly(event.generation, PauseRequest(), is_pause_wanted_, "job.pausing",
              absl::StrCat("asked to pause: ", event.reason));
}

Action AgentCore::PauseRequest() const {
  if (pause_.is_let_go || pause_.let_go_count > 0) return pause_;
  return RequestDrain{};
}

void AgentCore::EndRunEarly(int64_t generation, Action request, bool& is_wanted,
                            std::string_view event, std::string message) {
  if (generation != generation_) return;
  if (state_ == AgentState::kRunning) {
    Say(Severity::kInfo, event, std::move(message));
    Do(std::move(request));
  } else if (state_ == AgentState::kPreparing ||
             state_ == AgentState::kPrepared) {
    is_wanted = true;
  }
}

void AgentCore::On(const LeaveAdviceReceived& event) {
  Say(Severity::kWarning, "worker.leave_advice", event.text);
}

void AgentCore::On(const ReleaseReceived& event) {
  if (generation_ == 0 || event.generation < generation_ ||
      (pending_assignment_ &&
       event.generation < pending_assignment_->generation)) {
    return;
  }
  Say(Severity::kInfo, "job.released",
      absl::StrCat("released from job ", job_id_, ": ", event.message));
  pending_assignment_.reset();
  // A repeated release, after attaching again, is of the same job.
  if (event.job_end.has_value() && !is_release_pending_)
    NoteJobEnd(*event.job_end);
  if (!IsTrainerBusy()) {
    ReleaseToPool();
    return;
  }
  // A released worker owes no answer any more.
  is_halt_unanswered_ = false;
  is_release_pending_ = true;
  AbortAndWait(event.message);
}

void AgentCore::DropState() {
  Do(ReleaseTrainer{});
  job_id_.clear();
  position_ = StepPosition{};
  shards_.clear();
  can_go_on_ = false;
}

void AgentCore::ReleaseToPool() {
  DropState();
  state_ = AgentState::kIdle;
  generation_ = 0;
  rank_ = -1;
  formed_by_ = 0;
  is_rehearsal_ = false;
  payload_.reset();
  if (leave_) LeaveNow();
}

void AgentCore::On(const TraceRequested& event) {
  Send(SendTrace{event, rank_});
}

void AgentCore::On(const LogRequested& event) { Send(SendLog{event}); }

void AgentCore::On(const ProbeRequested& event) {
  Send(SendProbed{event.probe});
}

// ---- The trainer.

void AgentCore::On(const TrainerPrepared& event) {
  if (event.generation != trainer_generation_) return;
  position_ = event.position;
  shards_ = event.shards;
  can_go_on_ = event.can_go_on;
  if (state_ == AgentState::kHalting) {
    AfterAbort();
    return;
  }
  state_ = AgentState::kPrepared;
  prepared_ = event;
  Report();
}

void AgentCore::On(const TrainerPrepareFailed& event) {
  if (event.generation != trainer_generation_) return;
  position_ = event.position;
  shards_ = event.shards;
  can_go_on_ = event.can_go_on;
  if (state_ == AgentState::kHalting) {
    AfterAbort();  // failed because it was aborted
    return;
  }
  ended_ = TrainerEnded{};
  ended_.generation = event.generation;
  ended_.status = event.status;
  ended_.was_preparing = true;
  state_ = AgentState::kPaused;
  Say(Severity::kError, "job.prepare_failed",
      absl::StrCat("job ", job_id_, ", generation ", generation_, ", rank ",
                   rank_, ": ", ended_.status.message()));
  ReportPaused();
}

void AgentCore::On(const TrainerEnded& event) {
  if (event.generation != trainer_generation_) return;
  position_ = event.position;
  saved_step_ = event.saved_step;
  shards_ = event.shards;
  can_go_on_ = event.can_go_on;
  if (state_ == AgentState::kHalting) {
    // A failure of our own ends the job even if a halt came first.
    if (event.end == RunEnd::kFailed && is_halt_unanswered_ &&
        event.generation == generation_) {
      ended_ = event;
      ReportPaused();
    }
    AfterAbort();
    return;
  }
  Answer(event);
}

void AgentCore::On(const TrainerNoticed& event) {
  const v1::Notice& notice = event.notice;
  if (generation_ == 0 || notice.generation() != generation_) return;
  if (is_session_up()) {
    Do(SendNotice{notice});
    return;
  }
  Say(Severity::kWarning, "notice.dropped",
      absl::StrCat("not told to the coordinator, which is away: step ",
                   notice.step(), ": ", notice.message()));
}

void AgentCore::On(const TrainerAdvanced& event) {
  if (event.generation != generation_ || state_ != AgentState::kRunning ||
      !is_session_up()) {
    return;
  }
  // At once, not with the next beat: the coordinator measures recoveries by it.
  next_beat_ = now_ + beat_interval_;
  Do(SendBeat{generation_});
}

void AgentCore::Answer(const TrainerEnded& ended) {
  ended_ = ended;
  // Some rank has given its coordinator up, which is no end of the job.
  if (ended_.end == RunEnd::kStopped && !is_told_to_stop_ &&
      (is_stop_own_wish_ || !is_session_up())) {
    ended_.end = RunEnd::kDrained;
  }
  // A pause is as good as a halt: all ranks end after the same step.
  const bool is_paused_for_others =
      ended_.end == RunEnd::kDrained && (!leave_ || MustStay());
  state_ = is_paused_for_others ? AgentState::kHalted : AgentState::kPaused;
  const std::string where =
      absl::StrCat("job ", job_id_, ", generation ", generation_, ", rank ",
                   rank_, ", step ", position_.applied_step, ": ");
  switch (ended_.end) {
    case RunEnd::kFinished:
      Say(Severity::kInfo, "job.finished",
          absl::StrCat(where, "the job is done"));
      break;
    case RunEnd::kStopped:
    case RunEnd::kDrained:
      Say(Severity::kInfo, "job.paused",
          absl::StrCat(where, "stopped at the agreed step"));
      break;
    case RunEnd::kPeerFailed:
      Say(Severity::kWarning, "peer.failed",
          absl::StrCat(where, ended_.status.message()));
      break;
    case RunEnd::kInterrupted:
      ended_.end = RunEnd::kFailed;
      ended_.status =
          absl::InternalError("training was interrupted, but nobody asked");
      [[fallthrough]];
    case RunEnd::kFailed:
      Say(Severity::kError, "job.failed",
          absl::StrCat(where, ended_.status.message()));
      break;
  }
  if (give_up_deadline_) {
    ExitForCoordinator();
    return;
  }
  if (is_paused_for_others) {
    SayHalted();
    return;
  }
  ReportPaused();
  if (leave_ && !WaitsForRelease() && !MustStay()) LeaveNow();
}

}  // namespace ringmaster::agent
