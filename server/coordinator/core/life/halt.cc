#include "server/coordinator/core/life/halt.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/exit_code.h"
#include "server/coordinator/core/account/incident.h"
#include "server/coordinator/core/account/verdict.h"
#include "server/coordinator/core/life/absence.h"
#include "server/coordinator/core/life/contradictions.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/growth.h"
#include "server/coordinator/core/life/hand_over.h"
#include "server/coordinator/core/life/job_end.h"
#include "server/coordinator/core/life/membership.h"
#include "server/coordinator/core/life/own_failure.h"
#include "server/coordinator/core/life/quarantine.h"
#include "server/coordinator/core/life/reform.h"
#include "server/coordinator/core/life/training.h"
#include "server/coordinator/core/placement/shards.h"

namespace ringmaster::coordinator {
namespace {

bool HasFinisher(const Job& job) {
  return std::any_of(
      job.members.begin(), job.members.end(), [](const Member& member) {
        return member.finished.has_value() && !member.finished->is_stopped;
      });
}

v1::VerdictDecision DecisionOf(HaltIntent intent) {
  return intent == HaltIntent::kReform ? v1::VERDICT_DECISION_REFORM
                                       : v1::VERDICT_DECISION_FAIL_JOB;
}

void SendHalts(Turn& turn, const Job& job, const v1::Verdict& verdict) {
  for (const Member& member : job.members) {
    if (member.is_lost || member.halted.has_value()) continue;
    const Worker* const worker = turn.state.FindWorker(member.identity.worker);
    if (worker == nullptr || worker->session == 0) continue;
    turn.Do(SendHalt{worker->session, worker->generation, verdict});
  }
}

// Reconsiders a job that waits or is HALTING: the event that it waits for may
// have come.
void GoOn(Turn& turn, Job& job) {
  if (IsWaiting(job)) {
    Reform(turn, job);
  } else {
    ResolveHalt(turn, job);
  }
}

// Tells of the loss. One that failed by its own fault calls for a repair.
void AnnounceLoss(Turn& turn, const Job& job, const v1::Verdict& verdict) {
  const auto announce = [&](v1::EventSeverity severity, std::string_view type) {
    turn.Emit(severity, type, job, verdict.worker(), verdict.summary(),
              &verdict);
  };
  if (IsPolite(verdict)) {
    announce(v1::EVENT_SEVERITY_INFO, "worker.left");
  } else if (IsOwnFailure(verdict)) {
    announce(v1::EVENT_SEVERITY_ERROR, "worker.failed");
  } else {
    announce(v1::EVENT_SEVERITY_WARNING, "worker.lost");
  }
}

// Returns true if every step is done, since some member has finished: a lost
// member is then not needed, unless a peer reports that it is.
bool GoesOnWithout(const Job& job, int rank) {
  return (job.state() == v1::JOB_STATE_RUNNING ||
          job.state() == v1::JOB_STATE_STOPPING) &&
         HasFinisher(job) && AliveCount(job, v1::ROLE_WORKER) > 0 &&
         !IsSuspected(job, rank);
}

// Returns true if a member that paused has no steps any more: the ranks found that
// together they lack a part of the state.
bool IsStateGivenUp(const Job& job, const Member& member) {
  return job.sharding.shards == 0 && !member.is_newcomer &&
         member.halted->complete_step < job.resume_step;
}

// Returns the verdict on a member that halted without being told to by this
// coordinator.
v1::Verdict VerdictOnHalted(const Turn& turn, const Job& job,
                            const Member& member) {
  if (IsStateGivenUp(job, member)) {
    v1::Verdict verdict = VerdictOnNobody(
        job,
        absl::StrCat("the ranks gave the state of step ", job.resume_step,
                     " up, which they could not complete from their parts"),
        turn.time);
    AddEvidence(EvidenceOf(v1::EVIDENCE_KIND_SELF_REPORT, kCoordinatorObserver,
                           verdict.summary()),
                verdict);
    return verdict;
  }
  if (IsPausing(job) || HasLeaver(turn.state, job)) {
    return VerdictOnPause(turn, job);
  }
  if (job.is_recovered) {
    return VerdictOnNobody(job, "the coordinator restarted during a halt",
                           turn.time);
  }
  v1::Verdict verdict = VerdictOnNobody(
      job, "all ranks paused, because a worker leaves", turn.time);
  AddEvidence(EvidenceOf(v1::EVIDENCE_KIND_LEFT, kCoordinatorObserver,
                         verdict.summary()),
              verdict);
  return verdict;
}

}  // namespace

HaltedAnswer AnswerOf(const Job& job, const Member& member,
                      const HaltedReceived& halted) {
  HaltedAnswer answer{halted.applied_step, halted.complete_step};
  // Until it has copied the whole state, a newcomer holds nothing of the job's.
  if (member.is_newcomer && answer.applied_step < job.resume_step) {
    answer = HaltedAnswer{};
  }
  if (!CountsSteps(job, member)) {
    answer.applied_step = std::min(answer.applied_step, job.resume_step);
    answer.complete_step = std::min(answer.complete_step, job.resume_step);
  }
  if (HoldsShards(job, member.identity.role)) {
    KeepHeldShards(job, member, halted.generation, halted.shards, answer);
  }
  answer.can_go_on = job.runs_commands && halted.can_go_on;
  return answer;
}

void BeginHalt(Turn& turn, Job& job, HaltIntent intent, v1::Verdict verdict) {
  // A cancelled job makes no further step.
  if (intent == HaltIntent::kReform && job.cancel_reason.has_value()) {
    intent = HaltIntent::kCancel;
  }
  verdict.set_decision(DecisionOf(intent));
  NoteGrowthHalted(turn, job);
  stage::Halting halting{intent, turn.now + turn.config.halt_budget};
  // Members that have not attached again since a restart cannot have heard the
  // halt: they keep their time to return.
  if (job.reattach_deadline != MonotonicTime::InfiniteFuture()) {
    halting.deadline = std::max(halting.deadline, job.reattach_deadline);
  }
  job.stage = halting;
  job.hand_over_deadline = MonotonicTime::InfiniteFuture();
  ForgetSuspicions(job);
  job.message = verdict.summary();
  // Finishing counts within a generation only: a finished member may be needed
  // again by the next one. Halts go out before the record: a halt never
  // waits for a disk.
  for (Member& member : job.members) member.finished.reset();
  SendHalts(turn, job, verdict);
  NoteHaltBegun(turn, job, verdict);
  turn.Touch(job);
  // Not a fault: a user asked for it, a worker left, or others join.
  const bool is_wanted = intent == HaltIntent::kCancel || IsWanted(verdict);
  turn.Emit(is_wanted ? v1::EVENT_SEVERITY_INFO : v1::EVENT_SEVERITY_WARNING,
            "job.halting", job, "", verdict.summary(), &verdict);
  // A cancel has a record of its own, and is no fault.
  if (intent != HaltIntent::kCancel) {
    job.verdict = verdict;
    turn.Persist(VerdictReachedRecord{job.id, std::move(verdict)});
  }
  ResolveHalt(turn, job);
}

v1::Verdict HaltVerdict(const Job& job, absl::Time time) {
  if (IntentOf(job) != HaltIntent::kCancel && job.verdict.has_value()) {
    return *job.verdict;
  }
  v1::Verdict verdict = VerdictOnNobody(job, job.message, time);
  verdict.set_decision(v1::VERDICT_DECISION_FAIL_JOB);
  return verdict;
}

void FailJob(Turn& turn, Job& job, v1::Verdict verdict) {
  if (job.state() != v1::JOB_STATE_HALTING && !IsForming(job)) {
    BeginHalt(turn, job, HaltIntent::kFail, std::move(verdict));
    return;
  }
  verdict.set_decision(v1::VERDICT_DECISION_FAIL_JOB);
  ToHalting(job).intent = HaltIntent::kFail;
  job.message = verdict.summary();
  job.verdict = verdict;
  turn.Touch(job);
  NoteFurtherFault(turn, job, verdict);
  turn.Persist(VerdictReachedRecord{job.id, std::move(verdict)});
  ResolveHalt(turn, job);
}

void ResolveHalt(Turn& turn, Job& job) {
  if (job.state() != v1::JOB_STATE_HALTING || job.ending.has_value()) return;
  for (const Member& member : job.members) {
    if (!member.is_lost && !member.halted.has_value()) return;
  }
  ClearDeadlines(job.stage);
  job.reattach_deadline = MonotonicTime::InfiniteFuture();
  NoteAllHalted(turn, job);
  switch (IntentOf(job)) {
    case HaltIntent::kReform:
      Reform(turn, job);
      return;
    case HaltIntent::kFail:
      DecideEnd(turn, job,
                {v1::JOB_STATE_FAILED, job.verdict->exit_code(),
                 job.verdict->summary()});
      return;
    case HaltIntent::kCancel:
      if (!SettleContradictions(turn, job)) EndCancelled(turn, job);
      return;
  }
}

void OnHalted(Turn& turn, Worker& worker, const HaltedReceived& halted) {
  Member* const member = MemberOf(turn.state, worker);
  Job* const job = turn.state.FindJob(
      member != nullptr ? worker.job_id : worker.keeps_steps_of);
  const bool is_stale = job == nullptr || job->ending.has_value() ||
                        halted.generation != worker.generation;
  if (is_stale ||
      (member != nullptr && (IsForming(*job) || member->halted.has_value()))) {
    return;  // Stale, or said twice.
  }
  worker.phase = v1::PHASE_HALTED;
  if (member == nullptr) {
    OnKeptHalted(turn, worker, halted);
    return;
  }
  // Ranks that train may pause by themselves, because one of them leaves.
  if (job->state() == v1::JOB_STATE_PREPARING && !job->is_recovered) {
    CloseForViolation(turn, worker, "halted without being told to");
    return;
  }
  HaltedAnswer answer = AnswerOf(*job, *member, halted);
  answer.generation = halted.generation;
  NoteAppliedStep(*job, worker, *member, answer.applied_step);
  member->halted = std::move(answer);
  turn.Touch(*job);
  if (job->state() == v1::JOB_STATE_HALTING) {
    ResolveHalt(turn, *job);
    return;
  }
  // It has paused, or was halted by the coordinator before its restart.
  // Whoever was lost before cannot bring back more than a part of the state.
  if (IsStateGivenUp(*job, *member)) job->absence.has_waited = true;
  BeginHalt(turn, *job, IntentOf(*job), VerdictOnHalted(turn, *job, *member));
}

void OnHaltDeadline(Turn& turn, Job& job) {
  ClearDeadlines(job.stage);
  std::vector<std::string> silent;
  for (const Member& member : job.members) {
    if (!member.is_lost && !member.halted.has_value()) {
      silent.push_back(member.identity.worker);
    }
  }
  const std::string detail =
      absl::StrCat("did not answer the halt within ",
                   absl::FormatDuration(turn.config.halt_budget));
  for (const std::string& name : silent) {
    Evict(turn, name,
          EvidenceOf(v1::EVIDENCE_KIND_HALT_UNANSWERED, kCoordinatorObserver,
                     detail));
  }
}

void OnMemberGone(Turn& turn, const Worker& gone, std::string_view what,
                  v1::Evidence evidence, ExitCode exit_code) {
  Job& job = *turn.state.JobOf(gone);
  Member& member = *MemberOf(turn.state, gone);
  v1::Verdict verdict =
      VerdictOnMember(job, member, gone, what, std::move(evidence), turn.time);
  verdict.set_exit_code(static_cast<int>(exit_code));
  member.is_lost = true;
  NoteMemberGone(turn, member, gone, verdict.evidence(0));
  NoteAbsent(turn, job, member, verdict.evidence(0).kind());
  const bool goes_on = GoesOnWithout(job, verdict.rank());
  const bool was_never_told = IsForming(job) && IsNew(job);
  verdict.set_decision(goes_on || was_never_told ? v1::VERDICT_DECISION_REFORM
                                                 : DecisionOf(IntentOf(job)));
  turn.Touch(job);
  AnnounceLoss(turn, job, verdict);
  NoteHostFault(turn, job, gone, verdict);
  const std::optional<std::string> jobs_fault =
      NoteEarlyLoss(turn, job, member, gone, verdict);
  if (job.ending.has_value()) return;
  if (was_never_told) {
    AbandonFormation(turn, job);
    return;
  }
  if (jobs_fault.has_value() && !job.cancel_reason.has_value()) {
    absl::StrAppend(verdict.mutable_summary(), *jobs_fault);
    FailJob(turn, job, std::move(verdict));
    return;
  }
  // Nobody has heard of the generation.
  if (IsForming(job)) ToHalting(job);
  if (IsWaiting(job) || job.state() == v1::JOB_STATE_HALTING) {
    NoteFurtherLoss(turn, job, std::move(verdict));
    GoOn(turn, job);
  } else if (goes_on) {
    job.verdict = verdict;
    turn.Persist(VerdictReachedRecord{job.id, std::move(verdict)});
    CheckFinished(turn, job);
  } else {
    BeginHalt(turn, job, IntentOf(job), std::move(verdict));
  }
}

void MakeBlank(Turn& turn, Job& job, const Worker& worker, Member& member) {
  member.halted = HaltedAnswer{0, 0, /*is_blank=*/true};
  turn.Touch(job);
  // No member has heard of the generation that is forming, and it relies on
  // this member's steps.
  if (IsForming(job)) ToHalting(job);
  if (IsWaiting(job) || job.state() == v1::JOB_STATE_HALTING) {
    GoOn(turn, job);
  } else {
    const std::string why =
        job.is_recovered
            ? absl::StrCat("the coordinator restarted before worker ",
                           worker.name, " had heard of the generation")
            : absl::StrCat(Describe(member.identity),
                           " attached again without its state, in no "
                           "generation instead of ",
                           job.generation);
    BeginHalt(turn, job, IntentOf(job), VerdictOnNobody(job, why, turn.time));
  }
}

}  // namespace ringmaster::coordinator
