#include "server/coordinator/core/life/reform.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status/exit_code.h"
#include "server/coordinator/core/account/verdict.h"
#include "server/coordinator/core/life/absence.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/hand_over.h"
#include "server/coordinator/core/life/job_end.h"
#include "server/coordinator/core/life/own_failure.h"
#include "server/coordinator/core/placement/rendezvous.h"
#include "server/coordinator/core/placement/shards.h"

namespace ringmaster::coordinator {
namespace {

// The point from which the next generation resumes.
struct ResumePoint {
  // No member holds the steps that were applied.
  bool is_rollback = false;
  int64_t resume_step = 0;
  // The highest step that must not be lost.
  int64_t applied_step = 0;
  // The step of the shards' copies, if it resumes with them.
  std::optional<int64_t> shard_step = std::nullopt;
};

bool HoldsNothing(const Member& member) {
  return member.halted->is_blank || (member.halted->applied_step == 0 &&
                                     member.halted->complete_step == 0);
}

// Returns true if the member has loaded a checkpoint that it has not applied.
bool HoldsLoaded(const HaltedAnswer& answer) {
  return answer.applied_step == 0 && answer.complete_step > 1;
}

// The highest step that is known to be applied, by any worker.
int64_t AppliedStep(const Job& job) {
  int64_t applied = std::max(job.best_step, job.resume_step);
  for (const Member& member : job.members) {
    if (member.is_lost || member.identity.role != v1::ROLE_WORKER) continue;
    applied = std::max(applied, member.halted->applied_step);
  }
  return applied;
}

// Returns the members that count for the resume step: if steps were or may have
// been applied, those that know of them. A member that was in the generation
// and stands at 0 knows that there are none, if no other member has seen one.
std::vector<const Member*> Holders(const Job& job, int64_t applied_step) {
  std::vector<const Member*> holders;
  for (const Member& member : job.members) {
    if (member.is_lost) continue;
    const bool is_blind = member.halted->is_blank && job.has_trained;
    if (is_blind || (applied_step > 0 && HoldsNothing(member))) continue;
    holders.push_back(&member);
  }
  return holders;
}

// Returns true if a worker that was in the generation has not completed a step:
// without it, no member has applied one.
bool KnowsOfNoStep(const Job& job) {
  return std::any_of(
      job.members.begin(), job.members.end(), [](const Member& member) {
        return !member.is_lost && member.identity.role == v1::ROLE_WORKER &&
               !member.halted->is_blank && member.halted->complete_step == 0;
      });
}

// Returns the point for a job whose state is in shards.
ResumePoint FindShardResumePoint(const Job& job) {
  ResumePoint point;
  point.applied_step = AppliedStep(job);
  const std::optional<int64_t> common =
      CommonShardStep(job, point.applied_step);
  if (!common.has_value()) {
    point.is_rollback =
        point.applied_step > 0 || (job.has_trained && !KnowsOfNoStep(job));
    return point;
  }
  point.resume_step = *common;
  // Only the clocks go back, so no step is lost.
  if (!job.sharding.is_lockstep) point.applied_step = point.resume_step;
  // Before the first step, members begin from nothing: from a checkpoint, if
  // they find one.
  if (point.resume_step > 0 || !job.sharding.is_lockstep) {
    point.shard_step = common;
  }
  return point;
}

ResumePoint FindResumePoint(const Job& job) {
  if (job.sharding.shards > 0) return FindShardResumePoint(job);
  ResumePoint point;
  point.applied_step = AppliedStep(job);
  const std::vector<const Member*> holders = Holders(job, point.applied_step);
  if (holders.empty()) {
    point.is_rollback = point.applied_step > 0 || job.has_trained;
    return point;
  }
  point.resume_step = holders.front()->halted->complete_step;
  for (const Member* const holder : holders) {
    point.resume_step =
        std::min(point.resume_step, holder->halted->complete_step);
  }
  // A holder of a checkpoint can resume after the checkpoint's step or after
  // none.
  for (const Member* const holder : holders) {
    if (HoldsLoaded(*holder->halted) &&
        holder->halted->complete_step != point.resume_step) {
      point.resume_step = 0;
    }
  }
  return point;
}

// Fails the job because an applied step would be lost. The commit protocol
// rules that out, so a member is broken in an unknown way.
void FailOnLostStep(Turn& turn, Job& job, const ResumePoint& point) {
  std::string answers;
  for (const Member& member : job.members) {
    if (member.is_lost) continue;
    absl::StrAppend(&answers, answers.empty() ? "" : ", ", "rank ",
                    member.identity.rank, " applied ",
                    member.halted->applied_step, " and holds ",
                    member.halted->complete_step);
  }
  v1::Verdict verdict = VerdictOnNobody(
      job,
      absl::StrCat("internal error: step ", point.applied_step,
                   " was applied, but the survivors hold only step ",
                   point.resume_step, " in common: ", answers),
      turn.time);
  verdict.set_decision(v1::VERDICT_DECISION_FAIL_JOB);
  verdict.set_exit_code(static_cast<int>(ExitCode::kInternal));
  job.verdict = verdict;
  DecideEnd(turn, job,
            {v1::JOB_STATE_FAILED, verdict.exit_code(), verdict.summary()});
}

// A job that rolls back this often without progress would do so for ever.
bool FailIfRolledBackTooOften(Turn& turn, Job& job) {
  if (job.rollbacks < turn.config.max_rollbacks ||
      job.best_step > job.rollback_step) {
    return false;
  }
  std::string message =
      absl::StrCat("nobody is left who holds its steps, ", job.rollbacks + 1,
                   " times without getting beyond step ", job.rollback_step);
  if (job.verdict.has_value()) {
    job.verdict->set_decision(v1::VERDICT_DECISION_FAIL_JOB);
    absl::StrAppend(&message, ": ", job.verdict->summary());
  }
  DecideEnd(turn, job,
            {v1::JOB_STATE_FAILED, static_cast<int>(ExitCode::kRetryElsewhere),
             std::move(message)});
  return true;
}

// Nobody of those who are left has prepared it, and the hosts of the others are
// out, because their workers failed.
bool FailIfTriedEverywhere(Turn& turn, Job& job) {
  const std::optional<std::string> fault = TriedEverywhere(turn.state, job);
  if (!fault.has_value() || !job.verdict.has_value()) return false;
  job.verdict->set_decision(v1::VERDICT_DECISION_FAIL_JOB);
  DecideEnd(turn, job,
            {v1::JOB_STATE_FAILED, job.verdict->exit_code(),
             absl::StrCat(job.verdict->summary(), *fault)});
  return true;
}

// "step 40 is held by worker a (rank 0), worker c (rank 2)"; a table of
// thousands is cut short.
std::string HoldersText(const Job& job, const ResumePoint& point) {
  constexpr size_t kMostShown = 8;
  if (point.is_rollback) {
    return absl::StrCat("nobody holds ",
                        point.applied_step > 0
                            ? absl::StrCat("step ", point.applied_step)
                            : std::string("what was trained"),
                        " any more, so it begins anew");
  }
  if (point.shard_step.has_value()) {
    return ShardHoldersText(job, *point.shard_step);
  }
  if (point.applied_step == 0) return "no step was applied yet";
  std::string text = absl::StrCat("step ", point.resume_step, " is held by ");
  const std::vector<const Member*> holders = Holders(job, point.applied_step);
  for (size_t i = 0; i < holders.size(); ++i) {
    if (i == kMostShown) return absl::StrCat(text, ", ...");
    absl::StrAppend(&text, i == 0 ? "" : ", ", "worker ",
                    holders[i]->identity.worker, " (rank ",
                    holders[i]->identity.rank, ")");
  }
  return text;
}

// "10:05:30 UTC".
std::string ClockText(absl::Time time) {
  return absl::FormatTime("%H:%M:%S UTC", time, absl::UTCTimeZone());
}

// The numbers of members that are present or could join.
struct Present {
  int workers = 0;
  int servers = 0;
};

// Where no step is left to make, one worker is enough for what comes after the
// last: its checkpoint.
int LeastWorkers(const Job& job, const ResumePoint& point) {
  return point.resume_step >= job.total_steps ? 1 : job.min_workers;
}

bool IsEnough(const Job& job, const ResumePoint& point,
              const Present& present) {
  return present.workers >= LeastWorkers(job, point) &&
         present.servers >= LeastCount(job, v1::ROLE_PARAMETER_SERVER);
}

// Members stay halted with their state. A wait that goes on, for the same or
// something else, is one event.
void Wait(Turn& turn, Job& job, std::string message) {
  const bool is_new = job.state != v1::JOB_STATE_GATHERING;
  if (!is_new && job.message == message) return;
  job.state = v1::JOB_STATE_GATHERING;
  job.message = std::move(message);
  turn.Touch(job);
  if (!is_new) return;
  job.gathering_since = turn.now;
  turn.Emit(v1::EVENT_SEVERITY_WARNING, "job.gathering", job, "", job.message);
}

void WaitForWorkers(Turn& turn, Job& job, const ResumePoint& point,
                    const Present& present) {
  const std::string what =
      present.workers < job.min_workers
          ? absl::StrCat("waits for workers: ", present.workers,
                         " of at least ", job.min_workers)
          : absl::StrCat("waits for parameter servers: ", present.servers,
                         " of at least ",
                         LeastCount(job, v1::ROLE_PARAMETER_SERVER));
  Wait(turn, job, absl::StrCat(what, "; ", HoldersText(job, point)));
}

// Returns true if the job has a reason to wait for members that were given up.
bool WaitsForAbsent(Turn& turn, Job& job) {
  if (AwaitsReturn(job, turn.now)) {
    Wait(turn, job,
         absl::StrCat("waits for members that went at the same time: ",
                      AbsentText(job)));
    return true;
  }
  const bool was_common =
      std::exchange(job.return_deadline, MonotonicTime::InfiniteFuture()) !=
      MonotonicTime::InfiniteFuture();
  const ResumePoint point = FindResumePoint(job);
  if (was_common || point.is_rollback) TakeBack(turn, job, point.applied_step);
  const ResumePoint now = FindResumePoint(job);
  if (!now.is_rollback) {
    // If those who came back are lost again, they are waited for anew.
    job.holders_deadline = MonotonicTime::InfiniteFuture();
    job.has_waited = false;
    return false;
  }
  if (!AwaitsHolders(turn, job)) return false;
  Wait(turn, job,
       absl::StrCat("waits until ", ClockText(job.wait_end), " for ",
                    AbsentText(job), ", which held ",
                    now.applied_step > 0
                        ? absl::StrCat("step ", now.applied_step)
                        : std::string("what was trained"),
                    ", as nobody else does"));
  return true;
}

void WaitForJournal(Turn& turn, Job& job, const ResumePoint& point) {
  job.waits_for_journal = true;
  job.message =
      absl::StrCat("halted after step ", point.resume_step,
                   "; waits for the journal: ", turn.state.journal_error);
  turn.Touch(job);
}

// The part of the pool that a generation may take, and how many of one role it
// has at most.
struct Wanted {
  v1::Role role = v1::ROLE_WORKER;
  int most = 0;
  Hosts hosts = Hosts::kSound;
};

// The members that are left, and idle workers up to `wanted.most`.
std::vector<const Worker*> NextMembers(const Turn& turn, const Job& job,
                                       const Wanted& wanted) {
  std::vector<const Worker*> members;
  for (const Member& member : job.members) {
    if (member.is_lost || member.identity.role != wanted.role) continue;
    members.push_back(turn.state.FindWorker(member.identity.worker));
  }
  // A leaving server is a member only until it is relieved.
  const int counted = wanted.role == v1::ROLE_WORKER
                          ? static_cast<int>(members.size())
                          : StayingCount(turn.state, job, wanted.role);
  std::vector<const Worker*> joining =
      PackedIdleWorkers(turn.state, wanted.hosts, wanted.role);
  joining.resize(std::min(
      joining.size(), static_cast<size_t>(std::max(0, wanted.most - counted))));
  return OrderRanks(
      members, joining,
      wanted.role == v1::ROLE_WORKER ? 0 : MemberCount(job, v1::ROLE_WORKER));
}

// Workers first, then parameter servers. No worker joins if every step is done.
std::vector<const Worker*> NextMembers(const Turn& turn, const Job& job,
                                       const ResumePoint& point,
                                       Hosts worker_hosts, Hosts server_hosts) {
  const bool is_done = point.resume_step >= job.total_steps;
  std::vector<const Worker*> members = NextMembers(
      turn, job,
      {v1::ROLE_WORKER, is_done ? LeastWorkers(job, point) : job.max_workers,
       worker_hosts});
  const std::vector<const Worker*> servers =
      NextMembers(turn, job,
                  {v1::ROLE_PARAMETER_SERVER,
                   is_done ? LeastCount(job, v1::ROLE_PARAMETER_SERVER)
                           : job.sharding.servers,
                   server_hosts});
  members.insert(members.end(), servers.begin(), servers.end());
  return members;
}

}  // namespace

void Reform(Turn& turn, Job& job) {
  if (WaitsForAbsent(turn, job)) return;
  ResumePoint point = FindResumePoint(job);
  // Before anything else, since what the leavers held no longer counts after
  // their release.
  if (DismissLeavers(turn, job, point.shard_step, point.is_rollback)) {
    point = FindResumePoint(job);
  }
  if (point.is_rollback) {
    // Everything that is given up counts, even if no member had reported it
    // before the halt.
    job.best_step = point.applied_step;
    if (FailIfRolledBackTooOften(turn, job)) return;
  } else if (point.applied_step > point.resume_step) {
    FailOnLostStep(turn, job, point);
    return;
  }
  // The generation has made steps, perhaps without having reported any.
  if (point.resume_step > job.resume_step) job.links.OnLateStep();
  const Hosts worker_hosts = HostsToJoinFrom(turn.state, job, v1::ROLE_WORKER);
  const Hosts server_hosts =
      HostsToJoinFrom(turn.state, job, v1::ROLE_PARAMETER_SERVER);
  // A worker that leaves trains until then.
  const Present present = {
      AliveCount(job, v1::ROLE_WORKER) + IdleCount(turn.state, worker_hosts),
      StayingCount(turn.state, job, v1::ROLE_PARAMETER_SERVER) +
          IdleCount(turn.state, server_hosts, v1::ROLE_PARAMETER_SERVER)};
  if (!IsEnough(job, point, present)) {
    if (FailIfTriedEverywhere(turn, job)) return;
    WaitForWorkers(turn, job, point, present);
    return;
  }
  if (!turn.state.journal_error.empty()) {
    WaitForJournal(turn, job, point);
    return;
  }
  FormGeneration(
      turn, job,
      {.workers = NextMembers(turn, job, point, worker_hosts, server_hosts),
       .resume_step = point.resume_step,
       .is_rollback = point.is_rollback,
       .shard_step = point.shard_step});
}

bool IsWaiting(const Job& job) {
  return job.state == v1::JOB_STATE_GATHERING && !IsNew(job);
}

void CountRollback(Job& job) {
  if (job.best_step > job.rollback_step) {
    job.rollbacks = 0;
    job.rollback_step = job.best_step;
  }
  ++job.rollbacks;
}

}  // namespace ringmaster::coordinator
