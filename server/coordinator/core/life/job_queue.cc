#include "server/coordinator/core/life/job_queue.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/protocol/enum_name.h"
#include "common/status/exit_code.h"
#include "common/status/reason.h"
#include "server/coordinator/core/account/audit.h"
#include "server/coordinator/core/account/verdict.h"
#include "server/coordinator/core/life/contradictions.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/halt.h"
#include "server/coordinator/core/life/job_end.h"
#include "server/coordinator/core/life/queues.h"
#include "server/coordinator/core/life/reform.h"
#include "server/coordinator/core/life/suspension.h"
#include "server/coordinator/core/life/training.h"
#include "server/coordinator/core/state/limit_reached.h"

namespace ringmaster::coordinator {
namespace {

// OK if `submit` asks for the job that its request_id has made already.
absl::Status IsRepeated(const SubmitRequested& submit, const JobTerms& made,
                        const std::string& id) {
  if (submit.owner != made.owner) {
    return WithReason(
        absl::AlreadyExistsError(absl::StrCat(
            "request_id \"", submit.request_id,
            "\" has made a job of somebody else; give another request_id")),
        reason::kRequestIdReused);
  }
  if (submit.spec == made.spec) return absl::OkStatus();
  return WithReason(
      absl::AlreadyExistsError(absl::StrCat(
          "request_id \"", submit.request_id, "\" has made job ", id,
          ", with another specification; give another request_id for this "
          "one")),
      reason::kRequestIdReused);
}

// If the same request_id has made a job before, answers `request` with that
// job, or lets it wait for it; refuses it if it asks for another job. Returns
// false if there is none.
bool AnswerRepeated(Turn& turn, const SubmitRequested& submit) {
  if (submit.request_id.empty()) return false;
  for (const auto& [number, job] : turn.state.jobs) {
    if (job.request_id != submit.request_id) continue;
    turn.Reply(submit.request, IsRepeated(submit, job, job.id), job.id);
    return true;
  }
  for (auto& [token, pending] : turn.outbox.in_flight) {
    const auto* const record = std::get_if<JobCreatedRecord>(&pending.record);
    if (record == nullptr || record->request_id != submit.request_id) continue;
    const absl::Status repeated = IsRepeated(submit, *record, record->id);
    if (repeated.ok()) {
      pending.waiting.push_back(submit.request);
    } else {
      turn.Reply(submit.request, repeated, "");
    }
    return true;
  }
  return false;
}

// The jobs that have not ended, and those whose creation is not durable yet.
int64_t QueuedCount(const Turn& turn) {
  const auto is_queued = [](const auto& entry) {
    return !IsEnded(entry.second.state());
  };
  const auto is_created = [](const auto& entry) {
    return std::holds_alternative<JobCreatedRecord>(entry.second.record);
  };
  return std::count_if(turn.state.jobs.begin(), turn.state.jobs.end(),
                       is_queued) +
         std::count_if(turn.outbox.in_flight.begin(),
                       turn.outbox.in_flight.end(), is_created);
}

// A job has that number: one that was rebuilt leaves out some before it.
void NoteNumber(State& state, int64_t number) {
  if (number > state.last_job_number) {
    if (number > state.last_job_number + 1) {
      state.unused_numbers.emplace(state.last_job_number + 1, number - 1);
    }
    state.last_job_number = number;
    return;
  }
  const auto next = state.unused_numbers.upper_bound(number);
  if (next == state.unused_numbers.begin()) return;
  const auto [first, last] = *std::prev(next);
  if (number > last) return;
  state.unused_numbers.erase(first);
  if (first < number) state.unused_numbers.emplace(first, number - 1);
  if (number < last) state.unused_numbers.emplace(number + 1, last);
}

// Jobs that are being rebuilt have their numbers already.
int64_t NextNumber(const State& state) {
  int64_t last = state.last_job_number;
  for (const auto& [id, rebuilding] : state.rebuildings) {
    last = std::max(last, rebuilding.job_number);
  }
  return last + 1;
}

// Returns true if no member works for the job: it is queued, gathers, or its
// members have halted.
bool CanEndAtOnce(const Job& job) {
  return job.state() == v1::JOB_STATE_QUEUED ||
         job.state() == v1::JOB_STATE_GATHERING || IsForming(job);
}

// Stops the members of the job, in a way that depends on their state.
void CancelMembers(Turn& turn, Job& job) {
  switch (job.state()) {
    case v1::JOB_STATE_GATHERING:
      job.stage = stage::Halting{HaltIntent::kCancel};
      // It may have waited for others before it believed its members.
      if (!SettleContradictions(turn, job)) EndCancelled(turn, job);
      return;
    case v1::JOB_STATE_PREPARING:
      if (IsForming(job)) {  // its members have not heard of the generation
        job.stage = stage::Halting{HaltIntent::kCancel};
        EndCancelled(turn, job);
        return;
      }
      BeginHalt(
          turn, job, HaltIntent::kCancel,
          VerdictOnNobody(job, absl::StrCat("cancelled: ", *job.cancel_reason),
                          turn.time));
      return;
    case v1::JOB_STATE_RUNNING:
      job.message = absl::StrCat("stops: ", *job.cancel_reason);
      turn.Touch(job);
      StopMembers(turn, job);
      turn.Emit(v1::EVENT_SEVERITY_INFO, "job.stopping", job, "", job.message);
      return;
    case v1::JOB_STATE_HALTING:
      if (IntentOf(job) == HaltIntent::kReform) {
        ToHalting(job).intent = HaltIntent::kCancel;
        ResolveHalt(turn, job);
      }
      return;
    default:
      return;  // STOPPING already.
  }
}

// A further cancel of a job that is already stopping: it waits for the record
// of the first one.
void AnswerRepeatedCancel(Turn& turn, const CancelRequested& cancel,
                          const Job& job) {
  if (!turn.state.journal_error.empty()) {
    turn.Reply(
        cancel.request,
        JournalUnavailable(absl::StrCat("the cancellation of job ", job.id),
                           turn.state.journal_error),
        job.id);
    return;
  }
  for (auto& [token, pending] : turn.outbox.in_flight) {
    if (!std::holds_alternative<CancelRequestedRecord>(pending.record) ||
        JobIdOf(pending.record) != job.id) {
      continue;
    }
    pending.waiting.push_back(cancel.request);
    return;
  }
  turn.Reply(cancel.request, absl::OkStatus(), job.id);
}

}  // namespace

absl::Status MayChange(const Caller& caller, const Job& job) {
  if (caller.owns_all || (!caller.name.empty() && caller.name == job.owner)) {
    return absl::OkStatus();
  }
  return WithReason(
      absl::PermissionDeniedError(absl::StrCat(
          "job ", job.id,
          job.owner.empty() ? " has no owner"
                            : absl::StrCat(" is ", job.owner, "'s"),
          ", and ", caller.name, " (", caller.roles,
          ") may change only jobs of its own; an operator may change any")),
      reason::kPermissionDenied);
}

absl::Status MayHavePriority(const Caller& caller, int priority) {
  if (caller.owns_all || priority <= 0) return absl::OkStatus();
  return WithReason(absl::PermissionDeniedError(absl::StrCat(
                        "priority ", priority,
                        " is above 0, which only an operator may give, "
                        "and ",
                        caller.name, " is ", caller.roles)),
                    reason::kPermissionDenied);
}

void OnSubmit(Turn& turn, const SubmitRequested& submit) {
  if (AnswerRepeated(turn, submit)) return;
  if (absl::Status refusal = MayHavePriority(submit.caller, submit.priority);
      !refusal.ok()) {
    turn.Reply(submit.request, std::move(refusal), "");
    return;
  }
  if (absl::Status refusal = MayEnter(turn, submit, submit.caller);
      !refusal.ok()) {
    turn.Reply(submit.request, std::move(refusal), "");
    return;
  }
  if (!turn.state.journal_error.empty()) {
    turn.Reply(
        submit.request,
        JournalUnavailable(absl::StrCat("the creation of job ", submit.name),
                           turn.state.journal_error),
        "");
    return;
  }
  if (QueuedCount(turn) >= turn.config.max_queued_jobs) {
    turn.Reply(submit.request,
               LimitReached(turn.config.max_queued_jobs,
                            "jobs that have not ended", "max_queued_jobs"),
               "");
    return;
  }
  JobCreatedRecord record;
  record.number = NextNumber(turn.state);
  NoteNumber(turn.state, record.number);
  record.id = absl::StrCat(submit.name, "-", record.number);
  static_cast<JobTerms&>(record) = submit;
  record.request_id = submit.request_id;
  record.time = turn.time;
  record.caller = submit.caller;
  turn.Persist(std::move(record), {submit.request});
}

Job JobOf(const JobCreatedRecord& record) {
  Job job;
  static_cast<JobTerms&>(job) = record;
  job.id = record.id;
  job.number = record.number;
  job.request_id = record.request_id;
  job.create_time = record.time;
  job.message = QueuedText(job);
  return job;
}

void OnJobDurable(Turn& turn, const JobCreatedRecord& record,
                  const std::vector<RequestToken>& waiting) {
  Job& job =
      turn.state.jobs.emplace(record.number, JobOf(record)).first->second;
  NoteNumber(turn.state, record.number);
  job.accounted_to = turn.now;
  turn.Touch(job);
  turn.Emit(
      v1::EVENT_SEVERITY_INFO, "job.submitted", job, "",
      absl::StrCat(
          "job ", job.id, " for ", job.min_workers, " to ", job.max_workers,
          " workers", AndServers(job.sharding.servers), ", ",
          job.runs_commands ? std::string("a command")
                            : absl::StrCat(job.total_steps, " steps"),
          job.priority == 0 ? "" : absl::StrCat(", priority ", job.priority),
          job.queue == kDefaultQueue ? ""
                                     : absl::StrCat(", queue ", job.queue)));
  turn.Reply(waiting, absl::OkStatus(), record.id);
  turn.ScheduleSoon();
  Audit(turn, {.caller = record.caller,
               .action = "submit",
               .object = record.id,
               .request_id = record.request_id});
}

void OnCancel(Turn& turn, const CancelRequested& cancel) {
  const absl::StatusOr<const Job*> found = turn.state.LookUpJob(cancel.job);
  if (!found.ok()) {
    turn.Reply(cancel.request, found.status(), "");
    return;
  }
  Job* const job = turn.state.FindJob((*found)->id);
  if (absl::Status refusal = MayChange(cancel.caller, *job); !refusal.ok()) {
    turn.Reply(cancel.request, std::move(refusal), "");
    return;
  }
  if (IsEnded(job->state())) {
    turn.Reply(cancel.request, AlreadyEnded(*job), job->id);
    return;
  }
  if (job->ending.has_value()) {
    job->waiting_cancels.push_back(cancel.request);
    if (!turn.state.journal_error.empty()) OnEndNotDurable(turn, *job);
    return;
  }
  if (job->cancel_reason.has_value()) {
    AnswerRepeatedCancel(turn, cancel, *job);
    return;
  }
  Audit(turn, {.caller = cancel.caller,
               .action = "cancel",
               .object = job->id,
               .detail = cancel.reason});
  job->cancel_reason = cancel.reason;
  if (CanEndAtOnce(*job) && !SavesBeforeEnd(turn.state, *job)) {
    EndCancelled(turn, *job, {cancel.request});
    return;
  }
  CancelMembers(turn, *job);
  turn.Persist(CancelRequestedRecord{job->id, cancel.reason, turn.time},
               {cancel.request});
}

}  // namespace ringmaster::coordinator
