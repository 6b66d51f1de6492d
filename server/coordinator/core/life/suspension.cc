#include "server/coordinator/core/life/suspension.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/reason.h"
#include "server/coordinator/core/account/audit.h"
#include "server/coordinator/core/account/goodput.h"
#include "server/coordinator/core/account/incident.h"
#include "server/coordinator/core/life/absence.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/hand_over.h"
#include "server/coordinator/core/life/job_end.h"
#include "server/coordinator/core/life/job_queue.h"
#include "server/coordinator/core/life/rehearsal.h"
#include "server/coordinator/core/placement/gifts.h"

namespace ringmaster::coordinator {
namespace {

// How long a job trains on whose checkpoint could not be written.
constexpr absl::Duration kUnsavedTime = absl::Minutes(1);

absl::Status NotSuspendable(const Job& job) {
  const std::string why =
      job.is_benchmark    ? "it is a benchmark"
      : job.runs_commands ? "its commands may not begin anew (external.requeue)"
      : IsSuspendable(job)
          ? "a member is of a release that cannot write a checkpoint for that"
          : "it has no checkpoints to go on from (train.checkpoint), "
            "so its steps would be lost";
  return WithReason(absl::FailedPreconditionError(absl::StrCat(
                        "job ", job.id, " cannot be suspended: ", why)),
                    reason::kJobNotSuspendable);
}

absl::Status Refusal(const State& state, const ChangeRequested& change,
                     const Job& job) {
  if (absl::Status status = MayChange(change.caller, job); !status.ok()) {
    return status;
  }
  if (change.priority.has_value()) {
    if (absl::Status status = MayHavePriority(change.caller, *change.priority);
        !status.ok()) {
      return status;
    }
  }
  if (IsEnded(job.state) || job.ending.has_value() ||
      job.cancel_reason.has_value()) {
    return AlreadyEnded(job);
  }
  if (change.is_suspended.value_or(false) &&
      (!IsSuspendable(job) || !KnowHowToLeave(state, job))) {
    return NotSuspendable(job);
  }
  return state.journal_error.empty()
             ? absl::OkStatus()
             : JournalUnavailable(absl::StrCat("the change of job ", job.id),
                                  state.journal_error);
}

// "by alice: too warm".
std::string ByText(const JobChangedRecord& record) {
  return absl::StrCat(record.caller.name.empty()
                          ? ""
                          : absl::StrCat(" by ", record.caller.name),
                      record.reason.empty() ? "" : ": ", record.reason);
}

// It has not been the first that lacks workers yet.
void WaitAnew(Job& job) {
  job.is_overdue = job.is_served = false;
  job.first_since.reset();
}

void OnSuspendedOrResumed(Turn& turn, Job& job) {
  turn.Emit(v1::EVENT_SEVERITY_INFO,
            job.is_suspended ? "job.suspending" : "job.unsuspended", job, "",
            job.is_suspended ? absl::StrCat("is to be ", job.suspended_text)
                             : "takes workers again");
  const bool is_idle =
      job.state == v1::JOB_STATE_QUEUED ||
      (job.state == v1::JOB_STATE_GATHERING && job.members.empty());
  if (!is_idle) return;
  WaitAnew(job);
  ReturnToQueue(turn, job);
}

}  // namespace

void OnChangeJob(Turn& turn, const ChangeRequested& change) {
  const absl::StatusOr<const Job*> found = turn.state.LookUpJob(change.job);
  if (!found.ok()) {
    turn.Reply(change.request, found.status(), "");
    return;
  }
  const Job& job = **found;
  if (absl::Status refusal = Refusal(turn.state, change, job); !refusal.ok()) {
    turn.Reply(change.request, std::move(refusal), job.id);
    return;
  }
  const bool takes_place_anew =
      change.priority.value_or(job.priority) != job.priority ||
      (job.is_suspended && change.is_suspended == false);
  turn.Persist(
      JobChangedRecord{job.id, change.priority, change.is_suspended,
                       change.reason, turn.time, change.caller,
                       takes_place_anew ? turn.state.last_generation : 0},
      {change.request});
}

void OnJobChanged(Turn& turn, const JobChangedRecord& record,
                  const std::vector<RequestToken>& waiting) {
  // Jobs that have ended meanwhile are forgotten in time.
  if (Job* const job = turn.state.FindJob(record.job_id); job != nullptr) {
    const int priority = job->priority;
    const bool was_suspended = job->is_suspended;
    ApplyChange(*job, record);
    turn.Touch(*job);
    if (job->priority != priority) {
      turn.Emit(v1::EVENT_SEVERITY_INFO, "job.priority", *job, "",
                absl::StrCat("has priority ", job->priority, " instead of ",
                             priority, ByText(record)));
    }
    if (job->is_suspended != was_suspended && !IsEnded(job->state) &&
        !job->ending.has_value()) {
      OnSuspendedOrResumed(turn, *job);
    }
  }
  turn.Reply(waiting, absl::OkStatus(), record.job_id);
  turn.ScheduleSoon();
  const auto audit = [&](std::string action, std::string detail) {
    Audit(turn, {.caller = record.caller,
                 .action = std::move(action),
                 .object = record.job_id,
                 .detail = std::move(detail)});
  };
  if (record.priority.has_value()) {
    audit("priority",
          absl::StrCat(*record.priority, record.reason.empty() ? "" : ": ",
                       record.reason));
  }
  if (record.is_suspended.has_value()) {
    audit(*record.is_suspended ? "suspend" : "resume", record.reason);
  }
}

void ApplyChange(Job& job, const JobChangedRecord& record) {
  job.place_after = std::max(job.place_after, record.place_after);
  job.priority = record.priority.value_or(job.priority);
  if (!record.is_suspended.has_value()) return;
  job.is_suspended = *record.is_suspended;
  job.suspended_text =
      job.is_suspended ? absl::StrCat("suspended", ByText(record)) : "";
  if (job.state == v1::JOB_STATE_QUEUED) job.message = QueuedText(job);
}

void ReturnToQueue(Turn& turn, Job& job) {
  Account(job, turn.now);
  job.state = v1::JOB_STATE_QUEUED;
  job.gives_way.reset();
  job.suspend_retry = MonotonicTime::InfiniteFuture();
  ForgetSuspicions(job);
  ClearDeadlines(job);
  turn.state.active_jobs.erase(job.number);
  job.message = QueuedText(job);
  turn.Touch(job);
  turn.ScheduleSoon();
}

bool IsEmptied(const Job& job) {
  return job.gives_way.has_value() && AliveCount(job, v1::ROLE_WORKER) == 0 &&
         AliveCount(job, v1::ROLE_PARAMETER_SERVER) == 0;
}

std::string QueuedText(const Job& job) {
  if (job.is_suspended) return job.suspended_text;
  return absl::StrCat(SuspendedText(job), "waits for the jobs before it");
}

std::string SuspendedText(const Job& job) {
  if (IsNew(job)) return "";
  if (job.runs_commands) return "its commands were stopped; ";
  if (job.saved_step < 0) return "";
  return absl::StrCat("suspended after step ", job.saved_step, "; ");
}

void Suspend(Turn& turn, Job& job) {
  const bool has_no_step = job.best_step == 0 && !job.has_trained;
  const bool is_saved = job.saved_step == job.best_step || has_no_step;
  const std::string step =
      job.runs_commands    ? ", and its commands have ended"
      : !is_saved          ? " without its last steps, which nobody held"
      : job.best_step == 0 ? " before its first step"
                           : absl::StrCat(" after step ", job.best_step);
  const std::string why = *job.gives_way;
  NoteEnded(turn, job);
  DropAll(turn, job);
  EndRehearsals(turn, job, absl::StrCat("job ", job.id, " ", why));
  job.members.clear();
  job.closing = Closing::kNone;
  WaitAnew(job);
  ReturnToQueue(turn, job);
  turn.Emit(v1::EVENT_SEVERITY_INFO, "job.suspended", job, "",
            absl::StrCat(why, step,
                         job.runs_commands ? "; they begin anew once "
                                           : "; it goes on from there once ",
                         job.is_suspended ? "it is resumed"
                                          : "there are workers for it"));
  turn.Persist(JobSuspendedRecord{job.id, job.generation, job.best_step,
                                  is_saved, turn.time});
}

void ApplySuspension(Job& job, const JobSuspendedRecord& record) {
  job.state = v1::JOB_STATE_QUEUED;
  job.members.clear();
  job.absent.clear();
  job.best_step = record.step;
  job.saved_step = record.is_saved ? record.step : -1;
  job.has_trained = !record.is_saved;
  if (record.is_saved) job.figures.set_checkpoint_step(record.step);
  job.message = QueuedText(job);
}

void NoteUnsaved(Turn& turn, Job& job) {
  job.suspend_retry = turn.now + kUnsavedTime;
  turn.Emit(v1::EVENT_SEVERITY_WARNING, "job.not_suspended", job, "",
            absl::StrCat("cannot be suspended now, and trains on, since ",
                         WhyNotSaved(job, job.resume_step)));
}

}  // namespace ringmaster::coordinator
