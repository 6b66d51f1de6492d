#include "server/coordinator/core/life/hand_over.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/coordinator/core/account/incident.h"
#include "server/coordinator/core/account/verdict.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/halt.h"
#include "server/coordinator/core/life/job_end.h"
#include "server/coordinator/core/life/let_go.h"
#include "server/coordinator/core/life/reform.h"
#include "server/coordinator/core/placement/gifts.h"

namespace ringmaster::coordinator {
namespace {

constexpr size_t kMostNamed = 8;

// Time for the journal and the members to begin with a checkpoint.
constexpr absl::Duration kFormingTime = absl::Seconds(1);

bool IsLeavingHolder(const State& state, const Job& job, const Member& member) {
  return HoldsShards(job, member.identity.role) && IsLeaver(state, job, member);
}

// Returns true if the members that take over from the `needed` leavers can
// train beside them.
bool TrainsMeanwhile(const State& state, const Job& job, size_t needed) {
  if (job.sharding.shards == 0) return false;
  return !job.sharding.IsColocated() ||
         StayingCount(state, job, v1::ROLE_WORKER) > 0 ||
         static_cast<int>(needed) < job.max_workers;
}

// Returns the ranks of leavers that have the only copies of some shard.
std::set<int> NeededLeavers(const State& state, const Job& job,
                            const std::vector<std::set<int>>& copies) {
  std::set<int> needed;
  for (const std::set<int>& holders : copies) {
    const bool is_kept =
        std::any_of(holders.begin(), holders.end(), [&](int rank) {
          return !IsLeaver(state, job, job.members[static_cast<size_t>(rank)]);
        });
    if (is_kept || holders.empty()) continue;
    // If several hold a shard and all leave, one of them is enough. All who hold
    // the whole state stay: each host may have a disk of its own.
    if (job.sharding.shards == 0) return holders;
    needed.insert(*holders.begin());
  }
  return needed;
}

const Worker* WorkerAt(const State& state, const Job& job, int rank) {
  return state.FindWorker(
      job.members[static_cast<size_t>(rank)].identity.worker);
}

// Returns how long before the end of its patience a leaver of `job` has to begin
// with a checkpoint: twice what one took; and before it all halt, which a
// successor that hangs may not, and a generation forms. Where none was measured,
// each way gets half of the time.
absl::Duration SaveReserve(const Config& config, const Job& job,
                           absl::Duration patience) {
  return job.checkpoint_duration > absl::ZeroDuration()
             ? 2 * job.checkpoint_duration + config.halt_budget + kFormingTime
             : patience / 2;
}

// It has failed, and cannot go on with the job.
bool HasFailed(const State& state, const Job& job, int rank) {
  const Worker* const worker = WorkerAt(state, job, rank);
  return worker != nullptr && worker->has_failed;
}

// Returns true if all `needed` go, whatever is lost with them: the time has come for
// it if they are drained, and no time for those that have failed. Not while no loss can
// be made durable: see Reform.
bool GoInAnyCase(const Turn& turn, const Job& job,
                 const std::set<int>& needed) {
  return !job.gives_way.has_value() && turn.state.journal_error.empty() &&
         std::ranges::all_of(needed, [&](int rank) {
           const Worker* const worker = WorkerAt(turn.state, job, rank);
           return worker != nullptr &&
                  (worker->has_failed ||
                   (worker->is_let_go && IsDueToGo(turn.state, *worker)));
         });
}

std::vector<std::string> Newcomers(const Job& job) {
  std::vector<std::string> names;
  for (const Member& member : job.members) {
    if (member.is_newcomer && !member.is_lost) {
      names.push_back(member.identity.worker);
    }
  }
  return names;
}

// Why leavers go whom nobody needs.
std::string WhyRelieved(const Job& job, const HeldState& held) {
  if (job.runs_commands) return "its command has ended";
  if (held.copies.empty()) {
    return "no step was made that others would need it for";
  }
  if (job.closing == Closing::kHandOver && !Newcomers(job).empty()) {
    return absl::StrCat("step ", held.step, " was handed over to ",
                        NamesText(v1::ROLE_WORKER, Newcomers(job)));
  }
  return "others hold what it held";
}

void Dismiss(Turn& turn, Job& job, Member& member, bool is_relieved,
             const std::string& why) {
  Worker& worker = *turn.state.FindWorker(member.identity.worker);
  v1::Verdict verdict = VerdictOnMember(
      job, member, worker, "left",
      EvidenceOf(v1::EVIDENCE_KIND_LEFT, worker.name, why), turn.time);
  // A worker's knowledge still counts: which steps were made, or that none was.
  // A server may be ahead of the committed step.
  if (member.identity.role == v1::ROLE_WORKER) {
    job.best_step = std::max(job.best_step, member.halted->applied_step);
    if (job.best_step == 0 && !member.halted->is_blank &&
        member.halted->complete_step == 0) {
      job.has_trained = false;
    }
  }
  member.is_lost = true;
  NoteMemberGone(turn, member, worker, verdict.evidence(0));
  turn.Touch(job);
  turn.Emit(is_relieved ? v1::EVENT_SEVERITY_INFO : v1::EVENT_SEVERITY_WARNING,
            is_relieved ? "worker.relieved" : "worker.not_relieved", job,
            worker.name, verdict.summary(), &verdict);
  Release(turn, worker, job.state(), why);
  NoteFurtherLoss(turn, job, std::move(verdict));
}

}  // namespace

std::string NamesText(v1::Role role, const std::vector<std::string>& names) {
  std::string text =
      absl::StrCat(Sv(NameOf(role)), names.size() == 1 ? "" : "s");
  for (size_t i = 0; i < names.size(); ++i) {
    if (i == kMostNamed) return absl::StrCat(text, ", ...");
    absl::StrAppend(&text, i == 0 ? " " : ", ", names[i]);
  }
  return text;
}

bool IsLeaver(const State& state, const Job& job, const Member& member) {
  if (member.is_lost) return false;
  const Worker* const worker = state.FindWorker(member.identity.worker);
  if (worker == nullptr || !IsLeaving(*worker)) return false;
  // Workers of older releases leave by themselves unless they hold shards.
  return worker->protocol >= kLeaveProtocol ||
         HoldsShards(job, member.identity.role);
}

bool HasLeaver(const State& state, const Job& job) {
  return std::any_of(
      job.members.begin(), job.members.end(),
      [&](const Member& member) { return IsLeaver(state, job, member); });
}

bool HasLeavingHolder(const State& state, const Job& job) {
  return std::any_of(job.members.begin(), job.members.end(),
                     [&](const Member& member) {
                       return IsLeavingHolder(state, job, member);
                     });
}

bool IsInCheckpoint(const Job& job, int64_t step) {
  // Nothing is lost of a job that has made no step. Clocks may all stand at 0 of one
  // that has.
  return job.figures.checkpoint_step() == step &&
         (step > 0 || job.best_step == 0);
}

int64_t UpdatesBeyond(const Job& job, int64_t step) {
  if (job.sharding.shards == 0 || job.sharding.is_lockstep) return 0;
  if (job.clocks.set_back == kUnknownUpdates) return kUnknownUpdates;
  int64_t updates = 0;
  for (const Member& member : job.members) {
    if (member.identity.role != v1::ROLE_WORKER) continue;
    const int64_t clock =
        std::max(member.step,
                 member.halted.has_value() ? member.halted->applied_step : 0);
    updates += std::max<int64_t>(0, clock - step);
  }
  return job.clocks.set_back + std::max(job.clocks.to_set_back, updates);
}

std::string UnsavedWork(const Job& job, int64_t step) {
  const int64_t steps = step - std::min(step, job.figures.checkpoint_step());
  const int64_t updates = UpdatesBeyond(job, step);
  std::vector<std::string> parts;
  if (steps > 0) parts.push_back(Counted(static_cast<size_t>(steps), "step"));
  if (updates == kUnknownUpdates) {
    parts.push_back("some updates of its workers");
  } else if (updates > 0) {
    parts.push_back(
        absl::StrCat("up to ", Counted(static_cast<size_t>(updates), "update"),
                     " of its workers"));
  }
  return absl::StrJoin(parts, " and ");
}

bool CanSave(const State& state, const Job& job) {
  if (!job.keeps_checkpoints || AliveCount(job, v1::ROLE_WORKER) == 0) {
    return false;
  }
  for (const Member& member : job.members) {
    if (member.is_lost) continue;
    const Worker* const worker = state.FindWorker(member.identity.worker);
    if (worker == nullptr || worker->protocol < kLeaveProtocol) return false;
  }
  // It was tried to the end, and failed; else something disturbed it.
  return job.closing != Closing::kSave || !job.has_closed;
}

int StayingCount(const State& state, const Job& job, v1::Role role) {
  return static_cast<int>(std::count_if(
      job.members.begin(), job.members.end(), [&](const Member& member) {
        return !member.is_lost && member.identity.role == role &&
               !IsLeaver(state, job, member);
      }));
}

bool CanBeRelieved(const State& state, const Job& job) {
  const v1::Role role = HolderRole(job);
  return StayingCount(state, job, role) > 0 || IdleToJoin(state, job, role) > 0;
}

std::string LeaveText(const State& state, const Job& job) {
  if (job.gives_way.has_value()) return absl::StrCat("it ", *job.gives_way);
  std::map<std::string, std::string> takers;
  for (const Gift& gift : Gifts(state)) {
    if (gift.giver == &job) takers[gift.worker->name] = gift.taker->id;
  }
  // By who takes them; nobody comes first.
  std::map<std::string, std::vector<std::string>> names;
  v1::Role role = v1::ROLE_WORKER;
  for (const Member& member : job.members) {
    if (!IsLeaver(state, job, member)) continue;
    const auto taker = takers.find(member.identity.worker);
    const bool is_given = taker != takers.end();
    if (!is_given) role = member.identity.role;
    names[is_given ? taker->second : ""].push_back(member.identity.worker);
  }
  std::vector<std::string> parts;
  for (const auto& [taker, leavers] : names) {
    const bool is_one = leavers.size() == 1;
    parts.push_back(taker.empty()
                        ? absl::StrCat(NamesText(role, leavers),
                                       is_one ? " leaves" : " leave")
                        : absl::StrCat(NamesText(v1::ROLE_WORKER, leavers),
                                       is_one ? " goes to job " : " go to job ",
                                       taker));
  }
  return absl::StrJoin(parts, "; ");
}

Hosts HostsToJoinFrom(const State& state, const Job& job, v1::Role role) {
  return IdlePool(state, job, role)
      .HostsFor(LeastCount(job, role) - StayingCount(state, job, role));
}

int IdleToJoin(const State& state, const Job& job, v1::Role role) {
  const IdlePool idle(state, job, role);
  return idle.Count(
      idle.HostsFor(LeastCount(job, role) - StayingCount(state, job, role)));
}

LeavePlan PlanLeave(const Turn& turn, const Job& job, const HeldState& held) {
  const State& state = turn.state;
  LeavePlan plan;
  if (!HasLeaver(state, job)) return plan;
  // The job has made its last step: a leaver waits for its end.
  if (job.sharding.shards == 0 && held.step >= job.total_steps) return plan;
  plan.way = LeaveWay::kRelease;
  if (held.is_rollback) {
    plan.is_relieved = job.saved_step == job.best_step;
    plan.why =
        plan.is_relieved ? absl::StrCat("the checkpoint of step ",
                                        job.saved_step, " has its state")
        : job.sharding.shards > 0
            ? "some shard has no copy any more, so what it held is lost too"
            : "nobody holds the job's steps any more";
    return plan;
  }
  plan.needed = NeededLeavers(state, job, held.copies);
  plan.why = WhyRelieved(job, held);
  if (plan.needed.empty()) return plan;
  const bool is_named = IsInCheckpoint(job, held.step);
  const bool has_updates = UpdatesBeyond(job, held.step) != 0;
  const bool is_saved = is_named && (!has_updates || held.takes_checkpoint);
  const bool can_save = !is_named && CanSave(state, job);
  const bool must_save =
      can_save && LatestSave(turn, job, plan.needed) <= turn.now;
  if (must_save) {
    plan.way = LeaveWay::kSave;
  } else if (!job.gives_way.has_value() && CanBeRelieved(state, job)) {
    plan.way = LeaveWay::kHandOver;
    plan.is_saved = is_saved;
    plan.may_save_later = can_save;
    plan.makes_no_step = !TrainsMeanwhile(state, job, plan.needed.size()) ||
                         std::ranges::any_of(plan.needed, [&](int rank) {
                           return HasFailed(state, job, rank);
                         });
  } else if (is_saved) {
    plan.needed.clear();
    plan.is_saved = true;
    plan.why = held.step > 0 ? absl::StrCat("the checkpoint of step ",
                                            held.step, " is written")
                             : std::string("no step of all workers was made");
    if (!has_updates && !held.may_lack_steps) {
      plan.why = held.step > 0 ? absl::StrCat(plan.why, ", so no step is lost")
                               : "no step was made, so none is lost";
    }
  } else if (can_save) {
    plan.way = LeaveWay::kSave;
  } else if (GoInAnyCase(turn, job, plan.needed)) {
    plan.is_relieved = false;
    plan.why = absl::StrCat(HasFailed(state, job, *plan.needed.begin())
                                ? "nobody could take over; "
                                : "the time for it to be drained has come; ",
                            UnsavedWork(job, held.step),
                            " may be lost, since nobody else holds step ",
                            held.step, ", and ", WhyNotSaved(job, held.step));
    plan.needed.clear();
  } else {
    plan.way = LeaveWay::kWait;
  }
  return plan;
}

MonotonicTime LatestSave(const Turn& turn, const Job& job,
                         const std::set<int>& needed) {
  MonotonicTime latest = MonotonicTime::InfiniteFuture();
  for (const int rank : needed) {
    const Worker* const worker = WorkerAt(turn.state, job, rank);
    if (worker == nullptr || !worker->patience.has_value()) continue;
    const absl::Duration reserve =
        SaveReserve(turn.config, job, *worker->patience);
    if (reserve >= *worker->patience) continue;
    latest = std::min(latest, worker->leaves_by - reserve);
  }
  return latest;
}

MonotonicTime LatestHandOver(const Turn& turn, const Job& job,
                             const HeldState& held) {
  MonotonicTime latest = MonotonicTime::InfiniteFuture();
  for (const int rank : NeededLeavers(turn.state, job, held.copies)) {
    const Worker* const worker = WorkerAt(turn.state, job, rank);
    if (worker == nullptr || worker->patience.value_or(absl::ZeroDuration()) <=
                                 absl::ZeroDuration()) {
      continue;
    }
    const absl::Duration reserve =
        std::min(SaveReserve(turn.config, job, *worker->patience),
                 *worker->patience / 2);
    latest = std::min(latest, worker->leaves_by - reserve);
  }
  return latest;
}

void OnHandOverDeadline(Turn& turn, Job& job) {
  job.hand_over_deadline = MonotonicTime::InfiniteFuture();
  if (IsWaiting(job)) {
    Reform(turn, job);
    return;
  }
  const bool is_under_way = job.state() == v1::JOB_STATE_PREPARING ||
                            (job.state() == v1::JOB_STATE_RUNNING &&
                             job.closing == Closing::kHandOver);
  if (!is_under_way || IsForming(job)) return;
  v1::Verdict verdict = VerdictOnNobody(
      job,
      absl::StrCat("those who take over step ", job.resume_step,
                   " are not ready, so a checkpoint is written first while "
                   "there is time: ",
                   LeaveText(turn.state, job)),
      turn.time);
  AddEvidence(EvidenceOf(v1::EVIDENCE_KIND_LEFT, kCoordinatorObserver,
                         verdict.summary()),
              verdict);
  BeginHalt(turn, job, HaltIntent::kReform, std::move(verdict));
}

bool ReleaseLeavers(Turn& turn, Job& job, const LeavePlan& plan, int64_t step) {
  if (plan.way == LeaveWay::kNone || plan.way == LeaveWay::kSave) return false;
  // A job gives way with all members or none: without the others, those that
  // hold its state could neither train on nor write a checkpoint.
  if (plan.way == LeaveWay::kWait && job.gives_way.has_value()) return false;
  if (plan.is_saved) job.saved_step = step;
  bool has_released = false;
  for (Member& member : job.members) {
    if (!IsLeaver(turn.state, job, member)) continue;
    if (plan.needed.contains(member.identity.rank)) continue;
    Dismiss(turn, job, member, plan.is_relieved, plan.why);
    has_released = true;
  }
  return has_released;
}

void AdviseToWait(Turn& turn, const Job& job, const std::set<int>& needed,
                  const std::string& why) {
  for (const int rank : needed) {
    const Member& member = job.members[static_cast<size_t>(rank)];
    Worker* const worker = turn.state.FindWorker(member.identity.worker);
    if (worker == nullptr || worker->session == 0 ||
        std::exchange(worker->is_told_to_wait, true)) {
      continue;
    }
    if (worker->protocol >= kLeaveProtocol) {
      turn.Do(SendLeaveAdvice{worker->session, why});
    }
    turn.Emit(v1::EVENT_SEVERITY_WARNING, "worker.awaits_successor", job,
              worker->name,
              absl::StrCat(Sv(NameOf(worker->role)), " ", worker->name,
                           " stays for a while, since nobody else holds what "
                           "it holds"));
  }
}

v1::Verdict VerdictOnLeave(const Turn& turn, const Job& job, int64_t step) {
  const std::string leavers = LeaveText(turn.state, job);
  std::string what = absl::StrCat("all ranks stopped at step ", step);
  if (job.closing == Closing::kHandOver) {
    what = absl::StrCat("step ", step, " is handed over to ",
                        NamesText(v1::ROLE_WORKER, Newcomers(job)));
  } else if (job.figures.checkpoint_step() == step) {
    what = absl::StrCat("the checkpoint of step ", step, " is written");
  }
  v1::Verdict verdict = VerdictOnNobody(
      job,
      absl::StrCat(leavers.empty() ? "workers leave" : leavers, "; ", what),
      turn.time);
  AddEvidence(EvidenceOf(v1::EVIDENCE_KIND_LEFT, kCoordinatorObserver,
                         verdict.summary()),
              verdict);
  return verdict;
}

std::string WhyNotSaved(const Job& job, int64_t step) {
  if (!job.keeps_checkpoints) return "the job has no checkpoint directory";
  for (const Member& member : job.members) {
    if (!member.checkpoint_error.empty()) {
      return absl::StrCat("its checkpoint failed ", member.checkpoint_error);
    }
  }
  if (IsInCheckpoint(job, step) && UpdatesBeyond(job, step) != 0) {
    return absl::StrCat("the checkpoint of step ", step,
                        " may lack updates that workers, each with a clock of "
                        "its own, made beyond it");
  }
  return absl::StrCat("no checkpoint of step ", step, " was written");
}

std::string ClosingText(const Job& job) {
  switch (job.closing) {
    case Closing::kNone:
      return "";
    case Closing::kHandOver:
      return absl::StrCat("hands step ", job.resume_step, " over to ",
                          NamesText(v1::ROLE_WORKER, Newcomers(job)));
    case Closing::kSave:
      return absl::StrCat("writes the checkpoint of step ", job.resume_step,
                          job.cancel_reason.has_value()
                              ? ", since the job is cancelled"
                          : job.gives_way.has_value()
                              ? absl::StrCat(", since it ", *job.gives_way)
                              : ", since all who hold it leave");
  }
  return "";
}

}  // namespace ringmaster::coordinator
