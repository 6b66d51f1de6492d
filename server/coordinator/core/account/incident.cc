#include "server/coordinator/core/account/incident.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"
#include "server/coordinator/core/account/flight.h"
#include "server/coordinator/core/account/goodput.h"
#include "server/coordinator/core/account/verdict.h"

namespace ringmaster::coordinator {
namespace {

// The time since the mark, which moves on to now.
absl::Duration Lap(const Turn& turn, Job& job) {
  return turn.now - std::exchange(job.open_incident.mark, turn.now);
}

// Adds `more` to `part` of `cost`, and to the total.
void Add(absl::Duration more, google::protobuf::Duration& part,
         v1::RecoveryCost& cost) {
  part = ToProto(FromProto(part) + more);
  *cost.mutable_total() = ToProto(FromProto(cost.total()) + more);
}

std::string Milliseconds(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Milliseconds(duration), " ms");
}

// Returns since when members may have waited for a culprit that lives, but
// whose links have failed: an observer did not say before that it waits, and
// the job made no progress since.
MonotonicTime WaitBegan(const Turn& turn, const Job& job,
                        const v1::Verdict& verdict) {
  MonotonicTime began = MonotonicTime::InfiniteFuture();
  for (const v1::Evidence& evidence : verdict.evidence()) {
    const Worker* const observer = turn.state.FindWorker(evidence.observer());
    if (evidence.kind() == v1::EVIDENCE_KIND_PEER_REPORT && observer != nullptr)
      began = std::min(began, observer->last_at_work);
  }
  if (began == MonotonicTime::InfiniteFuture()) return job.last_progress;
  return std::max(began, job.last_progress);
}

// Returns how long ago the culprit showed its last sign of life. A culprit that
// reports its own failure is alive now; one whose links have failed may be,
// too, so how long others have waited counts; if nobody is to blame, all members
// stopped when progress did.
absl::Duration SilenceBefore(const Turn& turn, const Job& job,
                             const v1::Verdict& verdict) {
  if (IsWanted(verdict)) return absl::ZeroDuration();
  MonotonicTime last = turn.now;
  const int rank = verdict.rank();
  if (verdict.worker().empty()) {
    last = job.last_progress;
  } else if (rank >= 0 && rank < static_cast<int>(job.members.size()) &&
             job.members[rank].is_lost) {
    last = job.members[rank].last_sign;
    if (verdict.evidence_size() > 0 &&
        verdict.evidence(0).kind() == v1::EVIDENCE_KIND_PEER_REPORT)
      last = std::min(last, WaitBegan(turn, job, verdict));
  }
  return turn.now - std::min(turn.now, last);
}

void AddFault(v1::Incident& incident, const v1::Verdict& verdict) {
  incident.set_is_wanted(incident.is_wanted() && IsWanted(verdict));
  AddVerdict(verdict, *incident.mutable_verdict());
}

v1::Incident NewIncident(const Job& job, const v1::Verdict& verdict) {
  v1::Incident incident;
  incident.set_number(
      job.incidents.empty() ? 1 : job.incidents.back().number() + 1);
  *incident.mutable_verdict() = verdict;
  incident.set_is_wanted(IsWanted(verdict));
  incident.set_world_size_before(MemberCount(job, v1::ROLE_WORKER));
  return incident;
}

void Keep(Job& job, v1::Incident incident) {
  job.incidents.push_back(std::move(incident));
  if (job.incidents.size() > kMaxIncidents) job.incidents.pop_front();
}

bool IsOf(const v1::Verdict& verdict, std::string_view worker, int64_t pid) {
  return pid > 0 && verdict.pid() == pid && verdict.worker() == worker;
}

// Returns whether that was news.
bool AddProcessEnd(v1::Verdict& verdict, const v1::ProcessEnd& process_end) {
  if (verdict.has_process_end()) return false;
  *verdict.mutable_process_end() = process_end;
  AddEvidence(EvidenceOf(v1::EVIDENCE_KIND_SUPERVISOR_REPORT, verdict.worker(),
                         ToText(process_end)),
              verdict);
  return true;
}

}  // namespace

v1::Incident* OpenIncident(Job& job) {
  if (job.incidents.empty() || job.incidents.back().is_over()) return nullptr;
  return &job.incidents.back();
}

const v1::Incident* OpenIncident(const Job& job) {
  return OpenIncident(const_cast<Job&>(job));
}

void NoteMemberGone(const Turn& turn, Member& member, const Worker& gone,
                    const v1::Evidence& evidence) {
  member.last_sign = gone.last_heard;
  const Job* const job = turn.state.JobOf(gone);
  if (job != nullptr && evidence.kind() == v1::EVIDENCE_KIND_STREAM_BROKEN) {
    // Ranks make progress together: while one does, all are alive.
    member.last_sign =
        std::min(turn.now, std::max(gone.last_heard, job->last_progress));
  }
  if (evidence.kind() == v1::EVIDENCE_KIND_NO_PROGRESS) {
    const MonotonicTime last = member.last_progress.value_or(gone.last_heard);
    member.last_sign = std::min({gone.last_heard, last, turn.now});
  }
  member.loss = evidence.detail();
}

void NoteHaltBegun(Turn& turn, Job& job, const v1::Verdict& verdict) {
  job.turned_at = turn.now;
  if (IntentOf(job) == HaltIntent::kCancel) return;
  if (v1::Incident* const open = OpenIncident(job)) {
    // A further fault before the first step: the time since the last turning
    // point counts as its detection.
    v1::RecoveryCost& cost = *open->mutable_cost();
    Add(Lap(turn, job), *cost.mutable_detect(), cost);
    job.open_incident.part = IncidentPart::kHalt;
    open->clear_next_generation();
    open->clear_world_size_after();
    AddFault(*open, verdict);
    return;
  }
  v1::Incident incident = NewIncident(job, verdict);
  const absl::Duration silence = SilenceBefore(turn, job, verdict);
  v1::RecoveryCost& cost = *incident.mutable_cost();
  Add(silence, *cost.mutable_detect(), cost);
  MoveToDetecting(job, silence);
  OweFlight(turn, job, incident);
  Keep(job, std::move(incident));
  job.open_incident.part = IncidentPart::kHalt;
  job.open_incident.best_step = job.best_step;
  job.open_incident.mark = turn.now;
}

void NoteFurtherFault(Turn& turn, Job& job, const v1::Verdict& verdict) {
  v1::Incident* const open = OpenIncident(job);
  if (open == nullptr) return;
  AddFault(*open, verdict);
  turn.Touch(job);
}

void NoteFurtherLoss(Turn& turn, Job& job, v1::Verdict verdict) {
  if (job.verdict.has_value() && IntentOf(job) != HaltIntent::kCancel) {
    AddVerdict(verdict, *job.verdict);
  }
  NoteFurtherFault(turn, job, verdict);
  turn.Persist(VerdictReachedRecord{job.id, std::move(verdict)});
}

void NoteFailedRehearsal(Turn& turn, Job& job, const v1::Verdict& verdict) {
  if (OpenIncident(job) != nullptr) return;
  v1::Incident incident = NewIncident(job, verdict);
  incident.set_world_size_after(incident.world_size_before());
  incident.set_next_generation(job.generation);
  incident.set_resume_step(job.best_step);
  incident.mutable_cost()->mutable_total();
  incident.set_is_over(true);
  Keep(job, std::move(incident));
  turn.Touch(job);
}

void NoteAllHalted(Turn& turn, Job& job) {
  job.turned_at = turn.now;
  v1::Incident* const open = OpenIncident(job);
  if (open == nullptr || job.open_incident.part != IncidentPart::kHalt) return;
  v1::RecoveryCost& cost = *open->mutable_cost();
  Add(Lap(turn, job), *cost.mutable_halt(), cost);
  job.open_incident.part = IncidentPart::kAssign;
  // Their answers may include steps that no beat had reported.
  for (const Member& member : job.members) {
    if (!member.halted.has_value() || member.identity.role != v1::ROLE_WORKER)
      continue;
    job.open_incident.best_step =
        std::max(job.open_incident.best_step, member.halted->applied_step);
  }
}

void NoteAssigned(Turn& turn, Job& job) {
  job.turned_at = turn.now;
  v1::Incident* const open = OpenIncident(job);
  if (open == nullptr) return;
  v1::RecoveryCost& cost = *open->mutable_cost();
  Add(Lap(turn, job), *cost.mutable_assign(), cost);
  job.open_incident.part = IncidentPart::kConnect;
  open->set_next_generation(job.generation);
  open->set_resume_step(job.resume_step);
  open->set_world_size_after(MemberCount(job, v1::ROLE_WORKER));
  if (job.resume_step >= job.open_incident.best_step) return;
  // Its workers had separate clocks, and their updates are kept.
  if (!job.sharding.is_lockstep && !job.is_rollback) return;
  // Its members start again, from the last checkpoint if there is one.
  const int64_t kept = std::max(job.resume_step, job.figures.checkpoint_step());
  open->set_lost_steps(
      std::max<int64_t>(0, job.open_incident.best_step - kept));
  job.repeat_until = std::max(job.repeat_until, job.open_incident.best_step);
}

void NoteStarted(Turn& turn, Job& job) {
  job.turned_at = turn.now;
  if (v1::Incident* const open = OpenIncident(job)) {
    v1::RecoveryCost& cost = *open->mutable_cost();
    Add(Lap(turn, job), *cost.mutable_connect(), cost);
    job.open_incident.part = IncidentPart::kFirstStep;
  }
}

void NoteStep(Turn& turn, Job& job) {
  v1::Incident* const open = OpenIncident(job);
  if (open == nullptr || job.state() != v1::JOB_STATE_RUNNING) return;
  v1::RecoveryCost& cost = *open->mutable_cost();
  Add(Lap(turn, job), *cost.mutable_first_step(), cost);
  open->set_is_over(true);
  AskForFlight(turn, job);
  turn.Emit(
      v1::EVENT_SEVERITY_INFO, "job.resumed", job, open->verdict().worker(),
      absl::StrCat(
          "generation ", job.generation,
          job.runs_commands ? std::string(" runs its commands")
                            : absl::StrCat(" committed step ", job.best_step),
          ", ", Milliseconds(FromProto(open->cost().total())), " after ",
          open->verdict().summary(), " (", ToText(open->cost()), ")"),
      &open->verdict());
}

void NoteEnded(Turn& turn, Job& job) {
  Account(job, turn.now);
  v1::Incident* const open = OpenIncident(job);
  if (open == nullptr) return;
  open->set_is_over(true);
  AskForFlight(turn, job);
  turn.Touch(job);
}

void NoteProcessEnd(Turn& turn, std::string_view worker,
                    const v1::ProcessEnd& process_end) {
  Job* about = nullptr;
  const v1::Verdict* verdict = nullptr;
  bool is_known = false;
  for (auto& [number, job] : turn.state.jobs) {
    const v1::Verdict* changed = nullptr;
    const auto incident =
        std::find_if(job.incidents.rbegin(), job.incidents.rend(),
                     [&](const v1::Incident& i) {
                       return IsOf(i.verdict(), worker, process_end.pid());
                     });
    if (incident != job.incidents.rend()) {
      is_known = true;
      if (AddProcessEnd(*incident->mutable_verdict(), process_end)) {
        changed = &incident->verdict();
      }
    }
    if (job.verdict.has_value() &&
        IsOf(*job.verdict, worker, process_end.pid())) {
      is_known = true;
      if (AddProcessEnd(*job.verdict, process_end)) changed = &*job.verdict;
    }
    if (changed == nullptr) continue;
    turn.Touch(job);
    about = &job;
    verdict = changed;
  }
  const bool is_clean =
      process_end.signal() == 0 && process_end.exit_code() == 0;
  const v1::EventSeverity severity =
      is_clean ? v1::EVENT_SEVERITY_INFO : v1::EVENT_SEVERITY_WARNING;
  std::string message =
      absl::StrCat("worker ", Sv(worker), ": ", ToText(process_end));
  if (about != nullptr) {
    turn.Emit(severity, "worker.process_ended", *about, worker,
              std::move(message), verdict);
  } else if (!is_known) {
    turn.Emit(severity, "worker.process_ended", worker, std::move(message));
  }
}

std::string ToText(const v1::ProcessEnd& process_end) {
  const std::string process = absl::StrCat("process ", process_end.pid());
  if (process_end.signal() == 0) {
    return absl::StrCat(process, " ended with exit code ",
                        process_end.exit_code());
  }
  const char* const name = ::sigdescr_np(process_end.signal());
  return absl::StrCat(process, " was ended by signal ", process_end.signal(),
                      name == nullptr ? "" : absl::StrCat(" (", name, ")"));
}

std::string ToText(const v1::RecoveryCost& cost) {
  std::string text;
  const auto append = [&text](const char* name, bool is_known,
                              const google::protobuf::Duration& part) {
    if (!is_known) return;
    absl::StrAppend(&text, text.empty() ? "" : ", ", name, " ",
                    Milliseconds(FromProto(part)));
  };
  append("detect", cost.has_detect(), cost.detect());
  append("halt", cost.has_halt(), cost.halt());
  append("assign", cost.has_assign(), cost.assign());
  append("connect", cost.has_connect(), cost.connect());
  append("first step", cost.has_first_step(), cost.first_step());
  return text;
}

}  // namespace ringmaster::coordinator
