#include "server/coordinator/core/life/job_end.h"

#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/protocol/enum_name.h"
#include "common/status/reason.h"
#include "server/coordinator/core/account/incident.h"
#include "server/coordinator/core/account/memberships.h"
#include "server/coordinator/core/life/absence.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/quarantine.h"
#include "server/coordinator/core/life/rehearsal.h"

namespace ringmaster::coordinator {
namespace {

std::string_view EventTypeOf(v1::JobState state) {
  if (state == v1::JOB_STATE_SUCCEEDED) return "job.succeeded";
  return state == v1::JOB_STATE_CANCELLED ? "job.cancelled" : "job.failed";
}

void ApplyEnd(Turn& turn, Job& job, const JobEndedRecord& end) {
  NoteEnded(turn, job);
  job.stage = stage::Ended{end.state};
  job.exit_code = end.exit_code;
  job.message = end.message;
  job.parameters_hash = end.parameters_hash;
  job.end_time = end.time;
  NoteNoMembers(job, end.time);
  job.end_order = ++turn.state.last_end_order;
  job.ending.reset();
  job.setbacks.early_losses.clear();
  job.proven_hosts.clear();
  turn.state.active_jobs.erase(job.number);
  turn.ScheduleSoon();
  if (job.state() == v1::JOB_STATE_FAILED) ForgetFailures(turn.state, job.id);
  turn.Touch(job);
}

// Workers known from the journal that never attached again have no session to
// be told on, and no job to return to.
void ReleaseMembers(Turn& turn, const Job& job) {
  for (const Member& member : job.members) {
    Worker* const worker = turn.state.FindWorker(member.identity.worker);
    if (worker == nullptr || worker->job_id != job.id || member.is_lost) {
      continue;
    }
    if (worker->session == 0) {
      turn.state.workers.erase(turn.state.workers.find(worker->name));
      continue;
    }
    Release(turn, *worker, job.state(), job.message,
            job.state() == v1::JOB_STATE_FAILED ? job.exit_code : 0);
  }
}

absl::Status CancelAnswer(const Job& job) {
  return job.state() == v1::JOB_STATE_CANCELLED ? absl::OkStatus()
                                                : AlreadyEnded(job);
}

}  // namespace

absl::Status AlreadyEnded(const Job& job) {
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          "job ", job.id,
          IsEnded(job.state())
              ? absl::StrCat(" has already ended: ", EnumName(job.state()))
              : " is about to end")),
      reason::kJobAlreadyEnded);
}

void DecideEnd(Turn& turn, Job& job, End end,
               std::vector<RequestToken> waiting) {
  JobEndedRecord record;
  record.job_id = job.id;
  record.state = end.state;
  record.exit_code = end.exit_code;
  record.message = std::move(end.message);
  record.parameters_hash = end.parameters_hash;
  record.verdict = job.verdict;
  record.figures = job.figures;
  record.sample = job.sample;
  record.bench = job.bench;
  record.time = turn.time;
  job.ending = record;
  job.waits_for_journal = false;
  ClearDeadlines(job);
  turn.Touch(job);
  turn.Persist(std::move(record), std::move(waiting));
}

void OnEndDurable(Turn& turn, const JobEndedRecord& record,
                  const std::vector<RequestToken>& waiting) {
  Job* const job = turn.state.FindJob(record.job_id);
  if (job == nullptr) return;
  ApplyEnd(turn, *job, record);
  ReleaseMembers(turn, *job);
  DropAll(turn, *job);
  EndRehearsals(turn, *job, absl::StrCat("job ", job->id, " has ended"));
  turn.Reply(waiting, CancelAnswer(*job), job->id);
  turn.Reply(std::exchange(job->waiting_cancels, {}), CancelAnswer(*job),
             job->id);
  turn.Emit(job->state() == v1::JOB_STATE_FAILED ? v1::EVENT_SEVERITY_ERROR
                                                 : v1::EVENT_SEVERITY_INFO,
            EventTypeOf(job->state()), *job, "", job->message,
            job->state() == v1::JOB_STATE_FAILED && job->verdict.has_value()
                ? &*job->verdict
                : nullptr);
  PruneEndedJobs(turn.state, turn.config.max_ended_jobs);
}

void OnEndNotDurable(Turn& turn, Job& job) {
  const absl::Status status = JournalUnavailable(
      absl::StrCat("the end of job ", job.id), turn.state.journal_error);
  turn.Reply(std::exchange(job.waiting_cancels, {}), status, job.id);
}

void ReturnToPool(Turn& turn, Worker& worker) {
  turn.ScheduleSoon();
  if (worker.state == v1::WORKER_STATE_ASSIGNED) {
    worker.state = v1::WORKER_STATE_IDLE;
  }
  worker.job_id.clear();
  worker.is_let_go = false;
  worker.has_failed = false;
  worker.rank = -1;
  worker.generation = 0;
  worker.step = 0;
  worker.phase = v1::PHASE_IDLE;
  worker.collective_sequence = 0;
  worker.waiting_for_rank = -1;
  worker.rehearsal.reset();
}

void Release(Turn& turn, Worker& worker, v1::JobState state,
             const std::string& why, int exit_code) {
  // 0: it has not heard of the generation that was forming.
  if (worker.session != 0 && worker.generation != 0) {
    turn.Do(
        SendRelease{worker.session, worker.generation, state, why, exit_code});
  }
  ReturnToPool(turn, worker);
}

void PruneEndedJobs(State& state, int max_ended_jobs) {
  std::map<uint64_t, int64_t> ended;  // Numbers by end_order.
  for (const auto& [number, job] : state.jobs) {
    if (IsEnded(job.state())) ended.emplace(job.end_order, number);
  }
  while (ended.size() > static_cast<size_t>(max_ended_jobs)) {
    state.jobs.erase(ended.begin()->second);
    ended.erase(ended.begin());
  }
}

}  // namespace ringmaster::coordinator
