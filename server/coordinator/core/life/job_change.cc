#include "server/coordinator/core/life/job_change.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/reason.h"
#include "common/status/status_macros.h"
#include "server/coordinator/core/account/audit.h"
#include "server/coordinator/core/life/job_end.h"
#include "server/coordinator/core/life/job_queue.h"
#include "server/coordinator/core/life/queues.h"
#include "server/coordinator/core/life/suspension.h"
#include "server/coordinator/core/placement/gifts.h"
#include "server/coordinator/core/placement/quotas.h"

namespace ringmaster::coordinator {
namespace {

absl::Status NotSuspendable(const Job& job) {
  const std::string why =
      job.is_benchmark ? "it is a benchmark"
      : IsSuspendable(job)
          ? "a member is of a release that cannot leave a job that goes on"
      : job.runs_commands
          ? "its commands may not begin anew (external.requeue)"
          : "it has no checkpoints to go on from (train.checkpoint), "
            "so its steps would be lost";
  return WithReason(absl::FailedPreconditionError(absl::StrCat(
                        "job ", job.id, " cannot be suspended: ", why)),
                    reason::kJobNotSuspendable);
}

void Change(JobTerms& terms, const JobChange& change) {
  terms.priority = change.priority.value_or(terms.priority);
  terms.min_workers = change.min_workers.value_or(terms.min_workers);
  terms.max_workers = change.max_workers.value_or(terms.max_workers);
  terms.queue = change.queue.value_or(terms.queue);
}

bool Scales(const JobChange& change) {
  return change.min_workers.has_value() || change.max_workers.has_value();
}

// "2 to 8 workers".
std::string WorkersText(const JobTerms& terms) {
  return absl::StrCat(terms.min_workers, " to ", terms.max_workers, " workers");
}

// OK if `job` can have the numbers of workers that `terms` say.
absl::Status CheckScale(const Job& job, const JobTerms& terms) {
  if (job.scale_limit == 0) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(
            "job ", job.id, " cannot be scaled: it is a benchmark")),
        reason::kInvalidRequest);
  }
  std::string wrong;
  if (terms.min_workers < 1 || terms.max_workers < terms.min_workers) {
    wrong = absl::StrCat(
        "workers.max must be at least workers.min, and that at least 1, got ",
        terms.max_workers, " and ", terms.min_workers);
  } else if (terms.max_workers > job.scale_limit) {
    wrong = absl::StrCat(
        "job ", job.id, " takes at most ", job.scale_limit, " workers: ",
        job.sharding.IsColocated() ? "its parameters are laid out for as many"
        : job.runs_commands        ? "no job takes more"
                                   : "each needs a sample of every step "
                                     "(train.global_batch)");
  }
  return wrong.empty() ? absl::OkStatus()
                       : WithReason(absl::InvalidArgumentError(wrong),
                                    reason::kInvalidRequest);
}

// OK if the queue of `terms` has room for the workers that `job` has, or takes as one
// that has begun.
absl::Status HasPlaceFor(const State& state, const Job& job,
                         const JobTerms& terms) {
  if (!state.active_jobs.contains(job.number) || IsNew(job)) {
    return absl::OkStatus();  // It waits for room.
  }
  const int needed =
      std::max(AliveCount(job, v1::ROLE_WORKER), terms.min_workers);
  const int room = MostOfQueue(state, terms, job.number);
  if (needed <= room) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          "job ", job.id, " would have ",
          Counted(static_cast<size_t>(needed), "worker"), ", and queue ",
          terms.queue, " has room for ", room, " of them",
          terms.queue == job.queue
              ? ""
              : ": scale the job, or suspend it, before it is moved")),
      reason::kInvalidRequest);
}

absl::Status MayBeChanged(const Turn& turn, const ChangeRequested& change,
                          const Job& job) {
  const State& state = turn.state;
  RETURN_IF_ERROR(MayChange(change.caller, job));
  if (change.priority.has_value())
    RETURN_IF_ERROR(MayHavePriority(change.caller, *change.priority));
  if (IsEnded(job.state()) || job.ending.has_value() ||
      job.cancel_reason.has_value()) {
    return AlreadyEnded(job);
  }
  if (change.is_suspended.value_or(false) &&
      (!IsSuspendable(job) || !KnowHowToLeave(state, job))) {
    return NotSuspendable(job);
  }
  JobTerms terms = job;
  Change(terms, change);
  if (Scales(change)) RETURN_IF_ERROR(CheckScale(job, terms));
  if (terms.queue != job.queue) {
    RETURN_IF_ERROR(MayEnter(turn, terms, change.caller));
    RETURN_IF_ERROR(HasPlaceFor(state, job, terms));
  } else if (terms.min_workers != job.min_workers) {
    RETURN_IF_ERROR(FitsQueue(state, terms));
    if (terms.min_workers > job.min_workers)
      RETURN_IF_ERROR(HasPlaceFor(state, job, terms));
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

void OnSuspendedOrResumed(Turn& turn, Job& job) {
  turn.Emit(v1::EVENT_SEVERITY_INFO,
            job.is_suspended ? "job.suspending" : "job.unsuspended", job, "",
            job.is_suspended ? absl::StrCat("is to be ", job.suspended_text)
                             : "takes workers again");
  const bool is_idle =
      job.state() == v1::JOB_STATE_QUEUED ||
      (job.state() == v1::JOB_STATE_GATHERING && job.members.empty());
  if (!is_idle) return;
  WaitAnew(job);
  ReturnToQueue(turn, job);
}

// Tells of what is different from `before`.
void TellOfTerms(Turn& turn, const Job& job, const JobTerms& before,
                 const std::string& by) {
  const auto tell = [&](const char* type, const std::string& what) {
    turn.Emit(v1::EVENT_SEVERITY_INFO, type, job, "", absl::StrCat(what, by));
  };
  if (job.priority != before.priority) {
    tell("job.priority", absl::StrCat("has priority ", job.priority,
                                      " instead of ", before.priority));
  }
  if (job.queue != before.queue) {
    tell("job.moved",
         absl::StrCat("is in queue ", job.queue, " instead of ", before.queue));
  }
  if (WorkersText(job) != WorkersText(before)) {
    tell("job.scaled",
         absl::StrCat("takes ", WorkersText(job), " instead of ",
                      before.min_workers, " to ", before.max_workers));
  }
}

void AuditChange(Turn& turn, const JobChangedRecord& record) {
  const auto audit = [&](std::string action, const std::string& what) {
    const char* const colon = what.empty() || record.reason.empty() ? "" : ": ";
    Audit(turn, {.caller = record.caller,
                 .action = std::move(action),
                 .object = record.job_id,
                 .detail = absl::StrCat(what, colon, record.reason)});
  };
  if (record.priority.has_value())
    audit("priority", absl::StrCat(*record.priority));
  if (record.is_suspended.has_value())
    audit(*record.is_suspended ? "suspend" : "resume", "");
  if (record.min_workers.has_value() && record.max_workers.has_value()) {
    audit("scale", absl::StrCat(*record.min_workers, " to ",
                                *record.max_workers, " workers"));
  }
  if (record.queue.has_value())
    audit("move", absl::StrCat("queue ", *record.queue));
}

}  // namespace

void OnChangeJob(Turn& turn, const ChangeRequested& change) {
  const absl::StatusOr<const Job*> found = turn.state.LookUpJob(change.job);
  if (!found.ok()) {
    turn.Reply(change.request, found.status(), "");
    return;
  }
  const Job& job = **found;
  if (absl::Status refusal = MayBeChanged(turn, change, job); !refusal.ok()) {
    turn.Reply(change.request, std::move(refusal), job.id);
    return;
  }
  JobChangedRecord record;
  static_cast<JobChange&>(record) = change;
  if (Scales(change)) {
    record.min_workers = change.min_workers.value_or(job.min_workers);
    record.max_workers = change.max_workers.value_or(job.max_workers);
  }
  record.job_id = job.id;
  record.reason = change.reason;
  record.time = turn.time;
  record.caller = change.caller;
  const bool takes_place_anew =
      change.priority.value_or(job.priority) != job.priority ||
      change.queue.value_or(job.queue) != job.queue ||
      (job.is_suspended && change.is_suspended == false);
  if (takes_place_anew) record.place_after = turn.state.last_generation;
  turn.Persist(std::move(record), {change.request});
}

void OnJobChanged(Turn& turn, const JobChangedRecord& record,
                  const std::vector<RequestToken>& waiting) {
  // Jobs that have ended meanwhile are forgotten in time.
  if (Job* const job = turn.state.FindJob(record.job_id); job != nullptr) {
    const JobTerms before = *job;
    const bool was_suspended = job->is_suspended;
    ApplyChange(*job, record);
    turn.Touch(*job);
    TellOfTerms(turn, *job, before, ByText(record));
    const bool has_ended = IsEnded(job->state()) || job->ending.has_value();
    if (job->state() == v1::JOB_STATE_RUNNING &&
        job->min_workers > before.min_workers &&
        SeasonedCount(*job) < job->min_workers) {
      job->trains_with = SeasonedCount(*job);
    }
    if (job->is_suspended != was_suspended && !has_ended)
      OnSuspendedOrResumed(turn, *job);
    // It was about to begin as it was before.
    if (job->state() == v1::JOB_STATE_GATHERING && IsNew(*job) && !has_ended &&
        (Scales(record) || job->queue != before.queue)) {
      ReturnToQueue(turn, *job);
    }
  }
  turn.Reply(waiting, absl::OkStatus(), record.job_id);
  turn.ScheduleSoon();
  AuditChange(turn, record);
}

void ApplyChange(Job& job, const JobChangedRecord& record) {
  job.place.after = std::max(job.place.after, record.place_after);
  Change(job, record);
  if (!record.is_suspended.has_value()) return;
  job.is_suspended = *record.is_suspended;
  job.suspended_text =
      job.is_suspended ? absl::StrCat("suspended", ByText(record)) : "";
  if (job.state() == v1::JOB_STATE_QUEUED) job.message = QueuedText(job);
}

}  // namespace ringmaster::coordinator
