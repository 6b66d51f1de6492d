#include "server/coordinator/core/life/rehearsal.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/exit_code.h"
#include "server/coordinator/core/account/incident.h"
#include "server/coordinator/core/account/verdict.h"
#include "server/coordinator/core/life/growth.h"
#include "server/coordinator/core/life/own_failure.h"
#include "server/coordinator/core/life/quarantine.h"
#include "server/coordinator/core/placement/rendezvous.h"

namespace ringmaster::coordinator {
namespace {

bool Rehearses(const Job& job, const Worker& worker) {
  return worker.role == v1::ROLE_WORKER && worker.can_rehearse &&
         job.sharding.shards == 0;
}

bool IsFor(const Job& job, const Worker& worker) {
  return worker.rehearsal.has_value() && worker.rehearsal->job_id == job.id;
}

void SetDeadline(const State& state, Job& job) {
  job.growth.rehearsal_deadline = MonotonicTime::InfiniteFuture();
  for (const auto& [name, worker] : state.workers) {
    if (!IsFor(job, worker) || worker.rehearsal->is_ready) continue;
    job.growth.rehearsal_deadline =
        std::min(job.growth.rehearsal_deadline, worker.rehearsal->deadline);
  }
}

int CountIn(ContainerKey container, const std::vector<const Worker*>& workers) {
  return static_cast<int>(std::count_if(
      workers.begin(), workers.end(),
      [&](const Worker* worker) { return ContainerOf(*worker) == container; }));
}

int MembersIn(ContainerKey container, const Job& job) {
  return static_cast<int>(std::count_if(
      job.members.begin(), job.members.end(), [&](const Member& member) {
        return !member.is_lost && member.identity.role == v1::ROLE_WORKER &&
               ContainerOf(member.identity) == container;
      }));
}

// The place that the `index`-th of `joining` would have if they all joined now.
SendAssignment PlaceOf(const Job& job,
                       const std::vector<const Worker*>& joining,
                       size_t index) {
  const Worker& worker = *joining[index];
  const int workers = MemberCount(job, v1::ROLE_WORKER);
  const ContainerKey container = ContainerOf(worker);
  const int members = MembersIn(container, job);
  SendAssignment place;
  place.is_rehearsal = true;
  place.session = worker.session;
  place.job_id = job.id;
  place.self = IdentityOf(worker);
  place.self.rank = workers + static_cast<int>(index);
  place.self.local_rank =
      members + CountIn(container, {joining.begin(), joining.begin() + index});
  place.world_size = workers + static_cast<int>(joining.size());
  place.local_world_size = members + CountIn(container, joining);
  place.resume_step = job.best_step;
  place.state_source_rank = 0;
  place.is_newcomer = true;
  place.costs = job.costs;
  return place;
}

// `worker` cannot join: `evidence` says why.
void Drop(Turn& turn, Job& job, Worker& worker, std::string_view what,
          v1::Evidence evidence, ExitCode exit_code) {
  v1::Verdict verdict = VerdictOnNobody(
      job,
      absl::StrCat(Sv(NameOf(worker.role)), " ", worker.name, " (host ",
                   worker.host, ", pid ", worker.pid, ") ", Sv(what),
                   " as it prepared to join: ", evidence.detail()),
      turn.time);
  verdict.set_worker(worker.name);
  verdict.set_host(worker.host);
  verdict.set_pid(worker.pid);
  verdict.set_exit_code(static_cast<int>(exit_code));
  AddEvidence(std::move(evidence), verdict);
  // Perhaps nothing reached one that did not answer, so its host is not unfit.
  const bool has_answered =
      verdict.evidence(0).kind() != v1::EVIDENCE_KIND_NO_PROGRESS;
  LeaveOutHost(turn, job, worker,
               {verdict.summary(), has_answered ? verdict.exit_code() : 0,
                /*is_unfit=*/has_answered});
  turn.Emit(v1::EVENT_SEVERITY_ERROR, "worker.failed", job, worker.name,
            verdict.summary(), &verdict);
  NoteFailedRehearsal(turn, job, verdict);
  EndRehearsal(turn, worker, verdict.summary());
  SetDeadline(turn.state, job);
}

}  // namespace

bool IsRehearsal(const Worker& worker, int64_t number) {
  return worker.rehearsal.has_value() && worker.rehearsal->number == number;
}

bool Rehearse(Turn& turn, Job& job, const std::vector<const Worker*>& joining) {
  bool are_ready = true;
  for (size_t i = 0; i < joining.size(); ++i) {
    Worker& worker = *turn.state.FindWorker(joining[i]->name);
    if (!Rehearses(job, worker)) continue;
    if (worker.rehearsal.has_value()) {
      are_ready = are_ready && worker.rehearsal->is_ready;
      continue;
    }
    are_ready = false;
    SendAssignment place = PlaceOf(job, joining, i);
    place.generation = ++turn.state.last_generation;
    worker.rehearsal = Rehearsal{place.generation, /*is_ready=*/false,
                                 turn.now + turn.config.progress_cap, job.id};
    turn.Do(std::move(place));
    turn.Emit(v1::EVENT_SEVERITY_INFO, "worker.rehearses", job, worker.name,
              absl::StrCat("worker ", worker.name,
                           " prepares to join, while the others train on"));
  }
  SetDeadline(turn.state, job);
  return are_ready;
}

void OnRehearsed(Turn& turn, Job& job, Worker& worker,
                 const PreparedReceived& prepared) {
  const PreparedAnswer answer{prepared.plan_hash, prepared.data_fingerprint,
                              prepared.summary, prepared.data};
  const std::string difference =
      job.agreed.has_value()
          ? DifferenceText(answer, *job.agreed, "the members")
          : std::string();
  if (!difference.empty()) {
    Drop(turn, job, worker, "failed",
         EvidenceOf(v1::EVIDENCE_KIND_MISMATCH, worker.name, difference),
         ExitCode::kPlanMismatch);
    return;
  }
  worker.rehearsal->is_ready = true;
  SetDeadline(turn.state, job);
  ArmGrowth(turn, job, Gifts(turn.state));
}

void OnRehearsalFailed(Turn& turn, Job& job, Worker& worker,
                       const FailedReceived& failed) {
  Drop(turn, job, worker, "failed",
       EvidenceOf(v1::EVIDENCE_KIND_SELF_REPORT, worker.name, failed.message),
       ExitCodeOf(failed));
}

void OnRehearsalDeadline(Turn& turn, Job& job) {
  std::vector<std::string> late;
  for (const auto& [name, worker] : turn.state.workers) {
    if (IsFor(job, worker) && !worker.rehearsal->is_ready &&
        worker.rehearsal->deadline <= turn.now) {
      late.push_back(name);
    }
  }
  for (const std::string& name : late) {
    Drop(turn, job, *turn.state.FindWorker(name), "was given up",
         EvidenceOf(
             v1::EVIDENCE_KIND_NO_PROGRESS, kCoordinatorObserver,
             absl::StrCat("it has not prepared within ",
                          absl::FormatDuration(turn.config.progress_cap))),
         ExitCode::kRetryElsewhere);
  }
  SetDeadline(turn.state, job);
}

void EndRehearsal(Turn& turn, Worker& worker, std::string why) {
  // It has had no part in the job, so the job's end is none of its.
  turn.Do(SendRelease{.session = worker.session,
                      .generation = worker.rehearsal->number,
                      .state = v1::JOB_STATE_RUNNING,
                      .message = std::move(why)});
  worker.rehearsal.reset();
  turn.ScheduleSoon();
  turn.Touch();
}

void EndRehearsals(Turn& turn, Job& job, const std::string& why) {
  for (auto& [name, worker] : turn.state.workers) {
    if (IsFor(job, worker)) EndRehearsal(turn, worker, why);
  }
  SetDeadline(turn.state, job);
}

}  // namespace ringmaster::coordinator
