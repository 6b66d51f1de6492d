// AgentCore's session, its leaving and its deadlines.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/agent/core/agent_core.h"
#include "worker/agent/core/session_policy.h"

namespace ringmaster::agent {

// ---- The session.

void AgentCore::On(const SessionUp& event) {
  const bool is_first = state_ == AgentState::kConnecting;
  if (is_first) {
    state_ = AgentState::kIdle;
    Say(Severity::kInfo, "session.joined",
        absl::StrCat("joined coordinator ", config_.coordinator, " as ",
                     config_.name));
  } else {
    const bool is_new_life =
        coordinator_incarnation_ != event.coordinator_incarnation;
    Say(Severity::kInfo, "session.attached",
        absl::StrCat("attached to coordinator ", config_.coordinator,
                     is_new_life ? " (restarted)" : "", " again after ",
                     absl::FormatDuration(absl::Trunc(now_ - down_since_,
                                                      absl::Milliseconds(1)))));
  }
  link_ = Link::kUp;
  state_wait_ = event.state_wait;
  give_up_deadline_.reset();
  is_expelled_ = false;
  peer_ = event.peer;
  refusal_said_.clear();
  answer_deadline_ = MonotonicTime::InfiniteFuture();
  failed_attempts_ = 0;
  coordinator_incarnation_ = event.coordinator_incarnation;
  protocol_ = event.protocol;
  beat_interval_ = event.beat_interval;
  next_beat_ = now_ + beat_interval_;
  Do(SendBeat{generation_});
  Report();
}

void AgentCore::On(const SessionDown& event) {
  const bool was_up = link_ == Link::kUp;
  link_ = Link::kDown;
  next_beat_ = MonotonicTime::InfiniteFuture();
  answer_deadline_ = MonotonicTime::InfiniteFuture();
  if (was_up) down_since_ = now_;
  const bool is_name_news = IsNameInUse(event) && !name_deadline_;
  if (const auto refusal = PermanentRefusal(event, config_.coordinator,
                                            config_.name, MayWait(event))) {
    ExitWith(refusal->code, refusal->message);
    return;
  }
  const bool was_answer_late = std::exchange(is_answer_late_, false);
  last_failure_ = was_answer_late
                      ? absl::StrCat("coordinator ", config_.coordinator,
                                     " did not answer within ",
                                     absl::FormatDuration(AnswerTimeout()))
                      : DescribeSessionEnd(event, config_.coordinator);
  if (IsOfOtherCoordinator(event) || IsEncryptionMismatch(event))
    SayRefusal(event);
  // One line per outage, and one if the name is taken; further attempts are
  // silent.
  if (was_up || is_name_news ||
      (failed_attempts_ == 0 && state_ == AgentState::kConnecting)) {
    Say(Severity::kWarning, "session.down",
        absl::StrCat(was_up ? "lost the session: " : "", last_failure_,
                     "; trying again for ",
                     absl::FormatDuration(IsNameInUse(event) ? config_.name_wait
                                                             : Patience()),
                     generation_ == 0     ? ""
                     : IsExpulsion(event) ? "; training ends"
                                          : "; training goes on"));
  }
  // Its place in the generation is gone, so its steps are not needed; it still
  // keeps them until the release, since a coordinator that crashes before the
  // loss is on disk relies on them again.
  is_expelled_ = IsExpulsion(event);
  // It was only waiting to be told that nobody needs it.
  const bool has_stopped =
      state_ == AgentState::kHalted ||
      (state_ == AgentState::kPaused && ended_.end == RunEnd::kStopped);
  if (leave_ && has_stopped && IsSaved() && !MustStay()) {
    LeaveNow();
    return;
  }
  if (is_rehearsal_ && !pending_assignment_) {
    EndRehearsal();
  } else if (is_expelled_ && IsTrainerBusy()) {
    AbortAndWait("this worker is no member any more");
  }
  // An attempt that has tried an address in vain for longer than any delay is
  // followed by the next at once. If the coordinator answered, the delay stays,
  // since all workers would otherwise come back at the same moment.
  const bool has_waited =
      !was_up && !was_answer_late && now_ - opened_at_ >= config_.retry_max;
  is_peer_next_ = !peer_.empty() && (was_up || !is_peer_next_);
  const absl::Duration delay =
      RetryDelay(failed_attempts_++, config_.retry_initial, config_.retry_max,
                 event.jitter);
  retry_at_ = has_waited ? now_ : now_ + delay;
}

void AgentCore::SayRefusal(const SessionDown& event) {
  if (std::exchange(refusal_said_, event.reason) == event.reason) return;
  if (IsEncryptionMismatch(event)) {
    Say(Severity::kError, "session.encryption_mismatch",
        absl::StrCat(DescribeSessionEnd(event, config_.coordinator),
                     "; this worker waits ", absl::FormatDuration(Patience()),
                     " for a coordinator with its own setting"));
    return;
  }
  Say(Severity::kWarning, "session.other_coordinator",
      absl::StrCat(
          "another coordinator than its own, ",
          event.peer.empty() ? "" : absl::StrCat("at ", event.peer, ", "),
          "sends it away: ", DescribeSessionEnd(event, config_.coordinator),
          "; this worker waits ", absl::FormatDuration(Patience()),
          " for its own",
          peer_.empty() ? "" : absl::StrCat(", last met at ", peer_)));
}

absl::Duration AgentCore::AnswerTimeout() const {
  // Whoever was there may have moved.
  return is_peer_next_ ? std::min(config_.answer_timeout, config_.retry_max)
                       : config_.answer_timeout;
}

bool AgentCore::IsAwayUntilTrainerReturns() const {
  return link_ == Link::kDown && is_expelled_ && state_ == AgentState::kHalting;
}

bool AgentCore::MayWait(const SessionDown& end) {
  // One that was let in before holds what a coordinator with the former setting
  // needs: whoever restarted it may have erred.
  if (IsEncryptionMismatch(end)) return state_ != AgentState::kConnecting;
  if (!IsNameInUse(end) || state_ != AgentState::kConnecting) return false;
  if (!name_deadline_) name_deadline_ = now_ + config_.name_wait;
  return now_ < *name_deadline_;
}

// ---- Leaving.

void AgentCore::On(const TerminateSignal& event) {
  if (signalled_at_) {
    if (now_ < *signalled_at_ + config_.signal_window) return;
    ExitWith(ExitCode::kStopped,
             absl::StrCat("second ", event.name, ": stopped at once"), true);
    return;
  }
  signalled_at_ = now_;
  if (leave_) {  // it has had its jobs
    leave_->exit_code = ExitCode::kStopped;
    return;
  }
  BeginLeaving(event.name);
}

void AgentCore::BeginLeaving(std::string reason) {
  leave_ = Leave{std::move(reason), ExitCode::kStopped,
                 now_ + config_.drain_timeout};
  Say(Severity::kInfo, "worker.leaving",
      absl::StrCat(leave_->reason, ": leaving"));
  switch (state_) {
    case AgentState::kPreparing:
      // Others may be about to copy what it holds.
      if (MustStay()) {
        SayLeaving();
      } else {
        leave_->held_nothing = true;
        AbortAndWait(leave_->reason);
      }
      break;
    case AgentState::kRunning:
      RequestToLeave();
      SayLeaving();
      break;
    case AgentState::kHalting:
      if (MustStay()) SayLeaving();
      break;  // AfterAbort leaves
    default:
      // A finished job's success is worth waiting for its release.
      if (WaitsForRelease()) {
        SayLeaving();
      } else {
        LeaveUnlessNeeded();
      }
  }
}

void AgentCore::NoteJobEnd(ExitCode code) {
  ++jobs_over_;
  if (leave_ || config_.max_jobs == 0 || jobs_over_ < config_.max_jobs) return;
  // Its release is under way and will let it go.
  leave_ = Leave{absl::StrCat("job ", job_id_, " is over"), code,
                 now_ + config_.drain_timeout};
}

void AgentCore::RequestToLeave() {
  // An older coordinator would take a stop for the end of the job.
  if (protocol_ >= kLeaveProtocol) {
    Do(RequestLeave{});
  } else {
    Do(RequestDrain{});
  }
}

void AgentCore::SayLeaving() {
  leave_->is_said = true;
  Send(SendLeaving{leave_->reason, false, position_.applied_step,
                   leave_->deadline - now_});
}

bool AgentCore::IsSaved() const {
  return position_.complete_step > 0 && position_.complete_step == saved_step_;
}

bool AgentCore::MustStay() const {
  if (generation_ == 0 || is_rehearsal_) return false;
  if (!shards_.empty()) return true;
  // One that only could not read a file may be asked to hand over.
  const bool has_failed = state_ == AgentState::kPaused &&
                          ended_.end == RunEnd::kFailed &&
                          ExitCodeOf(ended_.status) != ExitCode::kUnreadable;
  // Nobody can take over while the coordinator is away.
  const bool is_safe = !is_session_up() && IsSaved();
  return protocol_ >= kLeaveProtocol && position_.complete_step > 0 &&
         !has_failed && !is_safe;
}

void AgentCore::LeaveUnlessNeeded() {
  if (MustStay()) {
    SayLeaving();
  } else {
    LeaveNow();
  }
}

void AgentCore::LeaveNow() {
  Send(SendLeaving{leave_->reason, true, position_.applied_step});
  ExitWith(leave_->exit_code, absl::StrCat("left: ", leave_->reason));
}

void AgentCore::ExitWith(ExitCode code, std::string message, bool is_hurried) {
  if (IsTrainerBusy() && state_ != AgentState::kHalting) {
    Do(AbortTrainer{trainer_generation_, message});
  }
  state_ = AgentState::kExited;
  Do(Exit{code, std::move(message), is_hurried});
}

absl::Duration AgentCore::Patience() const {
  return generation_ == 0 ? config_.coordinator_timeout
                          : std::max(config_.coordinator_timeout, state_wait_);
}

MonotonicTime AgentCore::GiveUpTime() const {
  return give_up_deadline_.value_or(down_since_ + Patience());
}

bool AgentCore::GiveUp() {
  if (state_ != AgentState::kRunning || leave_ || give_up_deadline_) {
    ExitForCoordinator();
    return true;
  }
  // The others give up at about the same time.
  give_up_deadline_ = now_ + std::max(config_.drain_timeout, Patience());
  Say(Severity::kWarning, "worker.giving_up",
      absl::StrCat("no coordinator for ", absl::FormatDuration(Patience()),
                   ": all ranks stop with a checkpoint, and this worker ends"));
  is_stop_own_wish_ = true;
  Do(RequestStop{});
  return false;
}

void AgentCore::ExitForCoordinator() {
  const std::string why =
      last_failure_.empty()
          ? absl::StrCat("coordinator ", config_.coordinator,
                         " does not answer; either its name does not resolve "
                         "or nothing is let through to it")
          : last_failure_;
  ExitWith(ExitCode::kRetryElsewhere,
           absl::StrCat("gave up after ", absl::FormatDuration(Patience()),
                        ": ", why));
}

// ---- Time.

MonotonicTime AgentCore::NextDeadline() const {
  if (state_ == AgentState::kExited) return MonotonicTime::InfiniteFuture();
  MonotonicTime next = MonotonicTime::InfiniteFuture();
  switch (link_) {
    case Link::kDown:
      if (IsAwayUntilTrainerReturns()) break;
      next = std::min(retry_at_, GiveUpTime());
      break;
    case Link::kOpening:
      next = std::min(answer_deadline_, GiveUpTime());
      break;
    case Link::kUp:
      next = next_beat_;
      break;
  }
  if (state_ == AgentState::kHalting) next = std::min(next, abort_deadline_);
  if (leave_) next = std::min(next, leave_->deadline);
  return next;
}

void AgentCore::On(const Tick&) {
  if (leave_ && now_ >= leave_->deadline) {
    Send(SendLeaving{leave_->reason, true, position_.applied_step});
    ExitWith(leave_->exit_code,
             absl::StrCat(MustStay()
                              ? "left; what it holds was not taken over within "
                              : "left without reaching a step boundary within ",
                          absl::FormatDuration(config_.drain_timeout)));
    return;
  }
  if (state_ == AgentState::kHalting && now_ >= abort_deadline_) {
    ExitWith(ExitCode::kRetryElsewhere,
             absl::StrCat("generation ", trainer_generation_,
                          " was aborted, and training has not ended within ",
                          absl::FormatDuration(config_.abort_timeout),
                          ": a device or a disk hangs"));
    return;
  }
  if (IsAwayUntilTrainerReturns()) return;
  if (link_ == Link::kUp) {
    if (now_ >= next_beat_) {
      next_beat_ = now_ + beat_interval_;
      Do(SendBeat{generation_});
    }
    return;
  }
  if (now_ >= GiveUpTime() && GiveUp()) return;
  if (link_ == Link::kOpening && now_ >= answer_deadline_) {
    is_answer_late_ = true;
    answer_deadline_ = MonotonicTime::InfiniteFuture();
    Do(CloseSession{});
  } else if (link_ == Link::kDown && now_ >= retry_at_) {
    link_ = Link::kOpening;
    opened_at_ = now_;
    answer_deadline_ = now_ + AnswerTimeout();
    OpenSession open;
    open.attempt = ++attempts_;
    if (is_peer_next_) open.peer = peer_;
    if (!is_rehearsal_) {
      open.generation = generation_;
      open.payload = payload_;
      open.formed_by = formed_by_;
    }
    Do(std::move(open));
  }
}

}  // namespace ringmaster::agent
