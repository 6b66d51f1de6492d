#include "server/coordinator/core/life/reform.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status/exit_code.h"
#include "server/coordinator/core/account/verdict.h"
#include "server/coordinator/core/life/absence.h"
#include "server/coordinator/core/life/contradictions.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/hand_over.h"
#include "server/coordinator/core/life/job_end.h"
#include "server/coordinator/core/life/let_go.h"
#include "server/coordinator/core/life/own_failure.h"
#include "server/coordinator/core/life/scheduler.h"
#include "server/coordinator/core/life/suspension.h"
#include "server/coordinator/core/placement/idle_pool.h"
#include "server/coordinator/core/placement/rendezvous.h"
#include "server/coordinator/core/placement/shards.h"
#include "server/coordinator/core/state/formed.h"

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
  // Others, who are lost, may have made steps after it that nobody here knows.
  bool may_lack_steps = false;
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
  int64_t applied = job.best_step;
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
  const NewestComplete newest = NewestCompleteOf(job);
  for (const Member& member : job.members) {
    if (member.is_lost) continue;
    const bool is_blind = member.halted->is_blank && job.has_trained;
    if (is_blind || IsSuperseded(*member.halted, newest) ||
        (applied_step > 0 && HoldsNothing(member)))
      continue;
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

// Returns true if `member` has said where it stood in the generation; that
// holds even if it was lost or let go since.
bool HasSaid(const Member& member) {
  return member.halted.has_value() && !member.halted->is_blank;
}

// Returns true if a worker, or the holder of a shard whose copy is updated in
// the generation, has not got beyond `step`: nor has anybody else, since a step
// takes all of them.
bool IsSomebodyAt(const Job& job, int64_t step) {
  return std::ranges::any_of(job.members, [step](const Member& member) {
    if (!HasSaid(member)) return false;
    const auto is_at = [step](const HeldShard& held) {
      return held.complete_step <= step;
    };
    return (member.identity.role == v1::ROLE_WORKER &&
            member.halted->complete_step <= step) ||
           std::ranges::any_of(member.halted->shards, is_at);
  });
}

// Returns true if no worker of the generation has applied more than `step`.
bool AreAllAt(const Job& job, int64_t step) {
  return job.best_step <= step &&
         std::ranges::all_of(job.members, [step](const Member& member) {
           return member.identity.role != v1::ROLE_WORKER ||
                  (HasSaid(member) && member.halted->applied_step <= step);
         });
}

// Returns true if `job`, which can go on from its shards' copies as of `step`,
// may have got further than that in its generation. Workers with clocks of
// their own do not wait for each other, so one says nothing of the others.
bool MayLackSteps(const Job& job, int64_t step) {
  if (!job.has_trained || job.closing != Closing::kNone ||
      AreAllAt(job, step) ||
      (job.sharding.is_lockstep && IsSomebodyAt(job, step))) {
    return false;
  }
  return NeedsGivenCopies(job, step);
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
  point.may_lack_steps = MayLackSteps(job, *common);
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

// A job that rolls back this often without progress would do so for ever. One
// that loses nothing by it does not count.
bool FailIfRolledBackTooOften(Turn& turn, Job& job) {
  if (job.saved_step == job.best_step ||
      job.setbacks.rollbacks < turn.config.max_rollbacks ||
      job.best_step > job.setbacks.rollback_step) {
    return false;
  }
  std::string message = absl::StrCat(
      "nobody is left who holds its steps, ", job.setbacks.rollbacks + 1,
      " times without getting beyond step ", job.setbacks.rollback_step);
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
  std::optional<JobsFault> fault = TriedEverywhere(turn.state, job);
  if (!fault.has_value() || !job.verdict.has_value()) return false;
  // The last incident may be another.
  if (job.verdict->exit_code() == fault->exit_code) {
    job.verdict->set_decision(v1::VERDICT_DECISION_FAIL_JOB);
  }
  DecideEnd(
      turn, job,
      {v1::JOB_STATE_FAILED, fault->exit_code, std::move(fault->message)});
  return true;
}

// "step 40 is held by worker a (rank 0), worker c (rank 2)"; a table of
// thousands is cut short.
std::string HoldersText(const Job& job, const ResumePoint& point) {
  constexpr size_t kMostShown = 8;
  if (point.is_rollback && point.applied_step == job.saved_step) {
    return absl::StrCat("step ", point.applied_step,
                        " is in its last checkpoint");
  }
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
// last: its checkpoint. Commands that can go on do so with as many as are left: they
// would only wait in memory. A job that trained with fewer than its min, which was raised
// since, goes on with as many as long as none of them is lost or leaves.
int LeastWorkers(const Job& job, const ResumePoint& point) {
  if (point.resume_step >= job.total_steps) return 1;
  const bool commands_go_on =
      std::ranges::any_of(job.members, [](const Member& member) {
        return !member.is_lost && member.halted.has_value() &&
               member.halted->can_go_on;
      });
  if (commands_go_on) return 1;
  const bool has_lost_one =
      std::ranges::any_of(job.members, [](const Member& member) {
        return member.identity.role == v1::ROLE_WORKER && member.is_lost &&
               !member.is_newcomer;
      });
  return job.trains_with > 0 && !has_lost_one && !point.is_rollback
             ? std::min(job.min_workers, job.trains_with)
             : job.min_workers;
}

bool IsEnough(const Job& job, const ResumePoint& point,
              const Present& present) {
  return present.workers >= LeastWorkers(job, point) &&
         present.servers >= LeastCount(job, v1::ROLE_PARAMETER_SERVER);
}

// Returns true if `job`, which is asked to give way, could train on with the
// members that it has, and those that could join.
bool CanTrainOn(const State& state, const Job& job, const ResumePoint& point) {
  const auto count = [&](v1::Role role) {
    return AliveCount(job, role) + IdleToJoin(state, job, role);
  };
  return IsEnough(job, point,
                  {count(v1::ROLE_WORKER), count(v1::ROLE_PARAMETER_SERVER)});
}

// Members stay halted with their state. A wait that goes on, for the same or
// something else, is one event.
void Wait(Turn& turn, Job& job, std::string message) {
  const bool is_new = job.state() != v1::JOB_STATE_GATHERING;
  if (!is_new && job.message == message) return;
  if (is_new) job.stage = stage::Gathering{turn.now};
  job.message = std::move(message);
  turn.Touch(job);
  turn.ScheduleSoon();  // Others may give it what it waits for.
  if (!is_new) return;
  turn.Emit(v1::EVENT_SEVERITY_WARNING, "job.gathering", job, "", job.message);
}

void WaitForWorkers(Turn& turn, Job& job, const ResumePoint& point,
                    const Present& present) {
  const std::string what =
      present.workers < LeastWorkers(job, point)
          ? absl::StrCat("waits for workers", FitText(job), ": ",
                         present.workers, " of at least ", job.min_workers)
          : absl::StrCat("waits for parameter servers: ", present.servers,
                         " of at least ",
                         LeastCount(job, v1::ROLE_PARAMETER_SERVER));
  Wait(turn, job, absl::StrCat(what, "; ", HoldersText(job, point)));
}

// Re-forming costs milliseconds, so a job whose generations come to nothing one after
// another would fill the journal. This many may follow at once, more than it takes to
// give up a link (LinkFaults::kManyRounds); then it rests, for twice as long each time.
constexpr int kMostVainGenerations = 12;
constexpr absl::Duration kFirstRest = absl::Milliseconds(100);
constexpr absl::Duration kLongestRest = absl::Seconds(5);

void CountGeneration(const Turn& turn, Job& job) {
  if (job.best_step != job.setbacks.vain_step ||
      turn.now - job.setbacks.last_formed > 2 * kLongestRest) {
    job.setbacks.vain_generations = 0;
  }
  ++job.setbacks.vain_generations;
  job.setbacks.vain_step = job.best_step;
  job.setbacks.last_formed = turn.now;
}

// Returns true if the job rests before its next generation. It does not while a
// member leaves, which does not stay for ever, or once it has waited for others.
bool Rests(Turn& turn, Job& job) {
  if (auto* const gathering = std::get_if<stage::Gathering>(&job.stage))
    gathering->rest_deadline = kNever;
  const int more = job.setbacks.vain_generations - kMostVainGenerations;
  if (more < 0 || job.best_step != job.setbacks.vain_step ||
      HasLeaver(turn.state, job) || job.absence.return_deadline <= turn.now) {
    return false;
  }
  const absl::Duration rest =
      std::min(kLongestRest, kFirstRest * (int64_t{1} << std::min(more, 10)));
  const MonotonicTime end = job.setbacks.last_formed + rest;
  if (end <= turn.now) return false;
  Wait(turn, job,
       absl::StrCat("rests for ", absl::FormatDuration(rest),
                    " before the next generation: the last ",
                    job.setbacks.vain_generations, " made no step"));
  std::get<stage::Gathering>(job.stage).rest_deadline = end;
  return true;
}

// Returns true if the job waits for members that went at the same time.
bool WaitsForReturn(Turn& turn, Job& job) {
  if (!AwaitsReturn(job, turn.now)) return false;
  Wait(turn, job,
       absl::StrCat("waits for members that went at the same time: ",
                    AbsentText(job)));
  return true;
}

// The state, and who holds it.
HeldState Held(const Job& job, const ResumePoint& point) {
  HeldState held;
  held.step = point.resume_step;
  held.is_rollback = point.is_rollback;
  held.may_lack_steps = point.may_lack_steps;
  if (point.is_rollback) return held;
  if (point.shard_step.has_value()) {
    held.copies = CopyHolders(job, *point.shard_step);
  } else if (job.sharding.shards == 0 && point.resume_step > 0) {
    std::set<int>& ranks = held.copies.emplace_back();
    for (const Member* const holder : Holders(job, point.applied_step)) {
      ranks.insert(holder->identity.rank);
    }
  }
  return held;
}

// Takes those back who are needed. Returns true if the job waits for members that
// alone held its steps.
bool WaitsForHolders(Turn& turn, Job& job) {
  const bool was_common = std::exchange(job.absence.return_deadline,
                                        MonotonicTime::InfiniteFuture()) !=
                          MonotonicTime::InfiniteFuture();
  const ResumePoint point = FindResumePoint(job);
  if (was_common || point.is_rollback || point.may_lack_steps)
    TakeBack(turn, job, point.applied_step);
  const ResumePoint now = FindResumePoint(job);
  if (!now.is_rollback && !now.may_lack_steps) {
    // If those who came back are lost again, they are waited for anew.
    job.absence.holders_deadline = MonotonicTime::InfiniteFuture();
    job.absence.has_waited = false;
    return false;
  }
  // Those who leave are to hand over, while there is time, what they do hold.
  const MonotonicTime latest = now.is_rollback
                                   ? MonotonicTime::InfiniteFuture()
                                   : LatestHandOver(turn, job, Held(job, now));
  if (!AwaitsHolders(turn, job, latest)) return false;
  job.absence.has_older_copies = now.may_lack_steps;
  const std::string what =
      now.may_lack_steps
          ? absl::StrCat("may hold more than step ", now.resume_step,
                         ", from which the others could go on")
          : absl::StrCat("held ",
                         now.applied_step > 0
                             ? absl::StrCat("step ", now.applied_step)
                             : std::string("what was trained"),
                         ", as nobody else does");
  Wait(turn, job,
       absl::StrCat("waits until ", ClockText(job.absence.wait_end), " for ",
                    AbsentText(job), ", which ", what));
  return true;
}

// `job` goes on from `point`, or ends there, and whoever may hold more did not
// come. Said once in a generation.
void NoteStepsLost(Turn& turn, Job& job, const ResumePoint& point) {
  if (!point.may_lack_steps || std::exchange(job.has_told_loss, true)) return;
  turn.Emit(v1::EVENT_SEVERITY_WARNING, "job.steps_lost", job, "",
            absl::StrCat("has step ", point.resume_step,
                         " only in copies that took no part in generation ",
                         job.generation,
                         ": steps that this may have made after it are lost "
                         "with those who held them"),
            /*verdict=*/nullptr, point.resume_step);
}

// What goes with leavers that are released, after which nobody could tell.
void NoteLossByRelease(Turn& turn, Job& job, const ResumePoint& point,
                       const LeavePlan& leave) {
  if (leave.way != LeaveWay::kRelease) return;
  NoteStepsLost(turn, job, point);
  const int64_t step = point.resume_step;
  if (!leave.is_saved || UpdatesBeyond(job, step) == 0) return;
  job.has_told_loss = true;
  turn.Emit(
      v1::EVENT_SEVERITY_WARNING, "job.steps_lost", job, "",
      absl::StrCat(LeaveText(turn.state, job), ": ", UnsavedWork(job, step),
                   " are lost, since ", WhyNotSaved(job, step)),
      /*verdict=*/nullptr, step);
}

// Nobody could take over from the leavers yet, and there is no checkpoint.
void WaitForSuccessor(Turn& turn, Job& job, const ResumePoint& point,
                      const std::set<int>& needed) {
  const std::string why = absl::StrCat(
      "waits for a ",
      Sv(NameOf(
          job.members[static_cast<size_t>(*needed.begin())].identity.role)),
      " that takes over step ", point.resume_step, ": ",
      LeaveText(turn.state, job), ", nobody else holds it, and ",
      WhyNotSaved(job, point.resume_step), "; if none comes in time, ",
      UnsavedWork(job, point.resume_step), " will be lost");
  Wait(turn, job, why);
  std::get<stage::Gathering>(job.stage).awaits_successor = true;
  AdviseToWait(turn, job, needed, why);
}

void WaitForJournal(Turn& turn, Job& job, const ResumePoint& point) {
  job.waits_for_journal = true;
  job.message = absl::StrCat(
      point.is_rollback ? HoldersText(job, point)
                        : absl::StrCat("halted after step ", point.resume_step),
      "; waits for the journal: ", turn.state.journal_error);
  turn.Touch(job);
}

// The part of the pool that a generation may take, and how many of one role it
// has at most.
struct Wanted {
  v1::Role role = v1::ROLE_WORKER;
  int most = 0;
  Hosts hosts = Hosts::kSound;
  // Those that leave count among `most`; else they come on top of it.
  bool leavers_count = false;
};

// The members that are left, and idle workers up to `wanted.most`.
std::vector<const Worker*> NextMembers(const Turn& turn, const Job& job,
                                       const Wanted& wanted) {
  std::vector<const Worker*> members;
  for (const Member& member : job.members) {
    if (member.is_lost || member.identity.role != wanted.role) continue;
    members.push_back(turn.state.FindWorker(member.identity.worker));
  }
  const int counted = wanted.leavers_count
                          ? static_cast<int>(members.size())
                          : StayingCount(turn.state, job, wanted.role);
  std::vector<const Worker*> joining =
      IdlePool(turn.state, job, wanted.role).Packed(wanted.hosts);
  joining.resize(std::min(
      joining.size(), static_cast<size_t>(std::max(0, wanted.most - counted))));
  return OrderRanks(
      members, joining,
      wanted.role == v1::ROLE_WORKER ? 0 : MemberCount(job, v1::ROLE_WORKER));
}

// Workers first, then parameter servers. No worker joins if every step is done.
std::vector<const Worker*> NextMembers(const Turn& turn, const Job& job,
                                       const ResumePoint& point,
                                       bool leavers_count) {
  const bool is_done = point.resume_step >= job.total_steps;
  const int on_top = leavers_count
                         ? 0
                         : AliveCount(job, v1::ROLE_WORKER) -
                               StayingCount(turn.state, job, v1::ROLE_WORKER);
  std::vector<const Worker*> members = NextMembers(
      turn, job,
      {v1::ROLE_WORKER,
       is_done ? LeastWorkers(job, point)
               : MostWorkers(turn.state, job, /*unreplaced=*/on_top),
       HostsToJoinFrom(turn.state, job, v1::ROLE_WORKER), leavers_count});
  const std::vector<const Worker*> servers = NextMembers(
      turn, job,
      {v1::ROLE_PARAMETER_SERVER,
       is_done ? LeastCount(job, v1::ROLE_PARAMETER_SERVER)
               : job.sharding.servers,
       HostsToJoinFrom(turn.state, job, v1::ROLE_PARAMETER_SERVER)});
  members.insert(members.end(), servers.begin(), servers.end());
  return members;
}

// Returns true if the members and idle workers are enough to train; else the
// job waits, or fails.
bool IsEnoughNow(Turn& turn, Job& job, const ResumePoint& point) {
  // A worker that leaves trains until then.
  const Present present = {
      AliveCount(job, v1::ROLE_WORKER) +
          IdleToJoin(turn.state, job, v1::ROLE_WORKER),
      StayingCount(turn.state, job, v1::ROLE_PARAMETER_SERVER) +
          IdleToJoin(turn.state, job, v1::ROLE_PARAMETER_SERVER)};
  if (IsEnough(job, point, present)) return true;
  if (!FailIfTriedEverywhere(turn, job)) {
    WaitForWorkers(turn, job, point, present);
  }
  return false;
}

// Drops idle workers of releases that know no generation without a step, if
// there is another one to take over: with them, too few to train would wait, and
// the leavers could not hand over. They join the next generation.
void DropOlderNewcomers(std::vector<const Worker*>& workers) {
  const auto joins = [](const Worker* worker) {
    return worker->job_id.empty();
  };
  const auto is_older = [](const Worker* worker) {
    return worker->protocol < kLeaveProtocol;
  };
  const bool has_other = std::any_of(
      workers.begin(), workers.end(),
      [&](const Worker* worker) { return joins(worker) && !is_older(worker); });
  if (!has_other) return;
  std::erase_if(workers, [&](const Worker* worker) {
    return joins(worker) && is_older(worker);
  });
}

// Returns whether a generation of `workers` makes no step, and why. Members of
// older releases cannot: with them, a leaver trains until the next pause.
Closing ClosingOf(const LeavePlan& leave,
                  const std::vector<const Worker*>& workers) {
  if (leave.way == LeaveWay::kSave) return Closing::kSave;
  const bool can_close = std::all_of(
      workers.begin(), workers.end(),
      [](const Worker* worker) { return worker->protocol >= kLeaveProtocol; });
  return leave.makes_no_step && can_close ? Closing::kHandOver : Closing::kNone;
}

// Those who write a checkpoint are the members that are left.
std::vector<const Worker*> Savers(const State& state, const Job& job) {
  std::vector<const Worker*> members;
  for (const Member& member : job.members) {
    if (member.is_lost) continue;
    members.push_back(state.FindWorker(member.identity.worker));
  }
  return members;
}

// Returns true if nobody else holds some part of the state of `job`, which waits or
// writes a checkpoint.
bool IsLastHolder(const Job& job, const Member& member) {
  if (job.sharding.shards == 0) {
    return AliveCount(job, member.identity.role) == 1;
  }
  const int rank = member.identity.rank;
  if (!IsWaiting(job)) return IsLastOfPlaced(job, rank);
  const ResumePoint point = FindResumePoint(job);
  if (!point.shard_step.has_value()) return false;  // it is lost already
  const std::vector<std::set<int>> copies = CopyHolders(job, *point.shard_step);
  return std::any_of(copies.begin(), copies.end(),
                     [rank](const std::set<int>& holders) {
                       return holders == std::set<int>{rank};
                     });
}

// How often those who hold the steps of a cancelled job are asked to write them.
constexpr int kMostSaves = 3;

// Returns true if `member` has prepared `job`, as far as is known.
bool HasPrepared(const Job& job, const Member& member) {
  return job.is_recovered || member.prepared.has_value() ||
         member.since < job.generation || !member.halted->shards.empty() ||
         !member.halted->given_shards.empty();
}

// Those who joined in the last generation and hold nothing yet cannot write it, and
// would only copy it.
void ReleaseBlanks(Turn& turn, Job& job, const HeldState& held) {
  for (Member& member : job.members) {
    if (member.is_lost) continue;
    const bool holds = job.sharding.shards > 0
                           ? HasPrepared(job, member)
                           : held.copies[0].contains(member.identity.rank);
    if (holds) continue;
    member.is_lost = true;
    Release(turn, *turn.state.FindWorker(member.identity.worker), job.state(),
            "those who hold the job's state write a checkpoint first");
  }
}

// Returns true if the members of `job`, which gives way after `step`, were to
// write a checkpoint and could not; or if theirs may lack updates, so that they
// have to get to another step first.
bool IsUnsaved(const Job& job, int64_t step) {
  if (!job.gives_way.has_value()) return false;
  return IsInCheckpoint(job, step)
             ? UpdatesBeyond(job, step) != 0
             : job.closing == Closing::kSave && job.has_closed;
}

Formation NextGeneration(const Turn& turn, const Job& job,
                         const ResumePoint& point, const LeavePlan& leave) {
  Formation next;
  next.workers = leave.way == LeaveWay::kSave
                     ? Savers(turn.state, job)
                     // A worker that leaves trains until it is relieved.
                     : NextMembers(turn, job, point,
                                   /*leavers_count=*/!leave.makes_no_step);
  if (leave.makes_no_step && job.sharding.shards == 0) {
    DropOlderNewcomers(next.workers);
  }
  next.closing = ClosingOf(leave, next.workers);
  next.resume_step = point.resume_step;
  next.is_rollback = point.is_rollback;
  next.shard_step = point.shard_step;
  return next;
}

}  // namespace

void Reform(Turn& turn, Job& job) {
  if (IsOutdated(turn.state)) {
    Wait(turn, job, kOutdatedText);
    return;
  }
  // Before anybody is disbelieved, all who can say something are heard.
  if (WaitsForReturn(turn, job)) return;
  if (Rests(turn, job)) return;
  if (SettleContradictions(turn, job)) return;
  if (WaitsForHolders(turn, job)) return;
  ResumePoint point = FindResumePoint(job);
  // It would wait for another checkpoint for ever if it made no further step, or
  // if its workers were always apart.
  const bool takes_checkpoint =
      IsInCheckpoint(job, point.resume_step) &&
      UpdatesBeyond(job, point.resume_step) != 0 &&
      (job.has_trained_on || !CanTrainOn(turn.state, job, point));
  if (IsUnsaved(job, point.resume_step) && !takes_checkpoint)
    NoteUnsaved(turn, job, point.resume_step);
  LetMembersGo(turn.state, job, Gifts(turn.state));
  // Before anything else, since what the leavers held no longer counts after
  // their release.
  HeldState held = Held(job, point);
  held.takes_checkpoint = takes_checkpoint && job.gives_way.has_value();
  // Those who were let go would have nothing to tell a coordinator that
  // restarts without a record of it: it would take the job for one that has
  // made no step.
  if (held.is_rollback && !turn.state.journal_error.empty()) {
    WaitForJournal(turn, job, point);
    return;
  }
  const LeavePlan leave = PlanLeave(turn, job, held);
  const MonotonicTime latest_save = leave.may_save_later
                                        ? LatestSave(turn, job, leave.needed)
                                        : MonotonicTime::InfiniteFuture();
  if (leave.way == LeaveWay::kSave) ReleaseBlanks(turn, job, held);
  NoteLossByRelease(turn, job, point, leave);
  if (ReleaseLeavers(turn, job, leave, point.resume_step)) {
    point = FindResumePoint(job);
  }
  if (IsEmptied(job)) {
    // Members that have loaded a checkpoint have not applied its step. Of workers
    // with clocks of their own the faster ones are beyond it.
    job.best_step = leave.is_saved ? held.step
                                   : std::max(point.applied_step,
                                              held.is_rollback ? 0 : held.step);
    Suspend(turn, job);
    return;
  }
  if (point.is_rollback) {
    // Everything that is given up counts, even if no member had reported it
    // before the halt.
    job.best_step = point.applied_step;
    if (FailIfRolledBackTooOften(turn, job)) return;
  }
  // Some generation has made steps, perhaps without having reported any.
  if (point.resume_step > job.resume_step) {
    job.links.OnLateStep();
    DropOvertaken(turn, job);
  }
  if (auto* const gathering = std::get_if<stage::Gathering>(&job.stage))
    gathering->awaits_successor = false;
  if (leave.way == LeaveWay::kWait) {
    WaitForSuccessor(turn, job, point, leave.needed);
    return;
  }
  const Formation next = NextGeneration(turn, job, point, leave);
  if (next.closing == Closing::kNone && !IsEnoughNow(turn, job, point)) {
    if (!job.ending.has_value()) job.hand_over_deadline = latest_save;
    return;
  }
  if (!turn.state.journal_error.empty()) {
    WaitForJournal(turn, job, point);
    return;
  }
  NoteStepsLost(turn, job, point);
  CountGeneration(turn, job);
  FormGeneration(turn, job, next);
  job.hand_over_deadline = latest_save;
}

bool SavesBeforeEnd(const State& state, const Job& job) {
  if (IsNew(job)) return false;  // no member has been asked what it holds
  const ResumePoint point = FindResumePoint(job);
  return !Held(job, point).copies.empty() &&
         point.resume_step > job.figures.checkpoint_step() &&
         job.saves_for_cancel < kMostSaves && state.journal_error.empty() &&
         CanSave(state, job);
}

std::string UnsavedText(const Job& job, int64_t step) {
  if (!job.keeps_checkpoints || job.figures.checkpoint_step() >= step) {
    return "";
  }
  return absl::StrCat("; step ", step, " is in no checkpoint, since ",
                      WhyNotSaved(job, step));
}

void EndCancelled(Turn& turn, Job& job, std::vector<RequestToken> waiting) {
  const ResumePoint point = IsNew(job) ? ResumePoint() : FindResumePoint(job);
  NoteStepsLost(turn, job, point);
  if (!SavesBeforeEnd(turn.state, job)) {
    const int64_t step = std::max(point.applied_step, point.resume_step);
    const bool lacks_updates =
        IsInCheckpoint(job, step) && UpdatesBeyond(job, step) != 0;
    DecideEnd(
        turn, job,
        {v1::JOB_STATE_CANCELLED, static_cast<int>(ExitCode::kStopped),
         absl::StrCat("cancelled: ", job.cancel_reason.value_or(""),
                      lacks_updates ? absl::StrCat("; ", WhyNotSaved(job, step))
                                    : UnsavedText(job, step))},
        std::move(waiting));
    return;
  }
  ++job.saves_for_cancel;
  ReleaseBlanks(turn, job, Held(job, point));
  Formation next;
  next.workers = Savers(turn.state, job);
  next.closing = Closing::kSave;
  next.resume_step = point.resume_step;
  next.shard_step = point.shard_step;
  FormGeneration(turn, job, next);
}

std::string LossByLeaving(const Job& job, const Member& member) {
  if (job.is_benchmark || job.ending.has_value()) return "";
  const bool is_saving = job.closing == Closing::kSave && !IsForming(job);
  if (!IsWaiting(job) && !is_saving) return "";
  if (!IsLastHolder(job, member)) return "";
  const int64_t step =
      !IsWaiting(job)            ? std::max(job.best_step, job.resume_step)
      : job.sharding.is_lockstep ? AppliedStep(job)
                                 : FindResumePoint(job).resume_step;
  const std::string lost = UnsavedWork(job, step);
  if (lost.empty()) return "";
  return absl::StrCat(
      lost, lost == "1 step" ? " is lost, since " : " are lost, since ",
      is_saving && !IsWaiting(job)
          ? std::string("its checkpoint was not written in time")
          : absl::StrCat("nobody took over, and ", WhyNotSaved(job, step)));
}

bool IsLastOfPlaced(const Job& job, int rank) {
  if (job.placements == nullptr) return false;
  const auto is_there = [&job](int other) {
    return other >= 0 && !job.members[static_cast<size_t>(other)].is_lost;
  };
  return std::any_of(
      job.placements->begin(), job.placements->end(),
      [&](const ShardPlacement& shard) {
        const bool has_other =
            (shard.primary_rank != rank && is_there(shard.primary_rank)) ||
            (shard.backup_rank != rank && is_there(shard.backup_rank));
        return !has_other &&
               (shard.primary_rank == rank || shard.backup_rank == rank);
      });
}

bool IsWaiting(const Job& job) {
  return job.state() == v1::JOB_STATE_GATHERING && !IsNew(job);
}

void CountRollback(Job& job) {
  if (job.best_step > job.setbacks.rollback_step) {
    job.setbacks.rollbacks = 0;
    job.setbacks.rollback_step = job.best_step;
  }
  ++job.setbacks.rollbacks;
}

}  // namespace ringmaster::coordinator
