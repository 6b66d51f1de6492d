#include "server/coordinator/core/hand_over.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/coordinator/core/incident.h"
#include "server/coordinator/core/job_end.h"
#include "server/coordinator/core/rendezvous.h"
#include "server/coordinator/core/shards.h"
#include "server/coordinator/core/verdict.h"

namespace ringmaster::coordinator {
namespace {

bool IsLeavingHolder(const State& state, const Job& job, const Member& member) {
  if (member.is_lost || !HoldsShards(job, member.identity.role)) return false;
  const Worker* const worker = state.FindWorker(member.identity.worker);
  return worker != nullptr && worker->state == WorkerState::kDraining;
}

// Whether anybody is there, or may join, who can be given shards.
bool CanBeRelieved(const State& state, const Job& job) {
  const Role role =
      job.sharding.IsColocated() ? Role::kWorker : Role::kParameterServer;
  if (StayingCount(state, job, role) > 0) return true;
  // A worker that leaves keeps its place among `max` as long as it trains.
  const bool has_room = role == Role::kParameterServer ||
                        AliveCount(job, Role::kWorker) < job.max_workers;
  return has_room && IdleCount(state, HostsFor(state, 1, role), role) > 0;
}

// The ranks of those who leave and have the only copies of some shard.
std::set<int> NeededLeavers(const State& state, const Job& job,
                            std::optional<int64_t> shard_step) {
  std::set<int> needed;
  if (!shard_step.has_value()) return needed;
  for (const std::set<int>& holders : CopyHolders(job, *shard_step)) {
    const bool is_kept =
        std::any_of(holders.begin(), holders.end(), [&](int rank) {
          return !IsLeavingHolder(state, job,
                                  job.members[static_cast<size_t>(rank)]);
        });
    // Of several who all leave, one is enough.
    if (!is_kept && !holders.empty()) needed.insert(*holders.begin());
  }
  return needed;
}

void Dismiss(Turn& turn, Job& job, Member& member, bool is_relieved) {
  Worker& worker = *turn.state.FindWorker(member.identity.worker);
  const std::string why =
      is_relieved ? "others hold what it held"
                  : "nobody is there who could take over its shards";
  Verdict verdict =
      VerdictOnMember(job, member, worker, "left",
                      {EvidenceKind::kLeft, worker.name, why}, turn.time);
  // What it knows counts on: the steps that there are, or that there are none.
  job.best_step = std::max(job.best_step, member.halted->applied_step);
  if (job.best_step == 0 && member.identity.role == Role::kWorker &&
      !member.halted->is_blank && member.halted->complete_step == 0) {
    job.has_trained = false;
  }
  member.is_lost = true;
  NoteMemberGone(turn, member, worker, verdict.evidence.front());
  turn.Touch(job);
  turn.Emit(is_relieved ? EventSeverity::kInfo : EventSeverity::kWarning,
            is_relieved ? "worker.relieved" : "worker.not_relieved", job,
            worker.name, verdict.summary, &verdict);
  Release(turn, worker, job.state, why);
  NoteFurtherLoss(turn, job, std::move(verdict));
}

}  // namespace

bool HasLeavingHolder(const State& state, const Job& job) {
  return std::any_of(job.members.begin(), job.members.end(),
                     [&](const Member& member) {
                       return IsLeavingHolder(state, job, member);
                     });
}

int StayingCount(const State& state, const Job& job, Role role) {
  return static_cast<int>(std::count_if(
      job.members.begin(), job.members.end(), [&](const Member& member) {
        return !member.is_lost && member.identity.role == role &&
               !IsLeavingHolder(state, job, member);
      }));
}

std::string LeaveText(const State& state, const Job& job) {
  constexpr size_t kMostShown = 8;
  std::string names;
  size_t count = 0;
  Role role = Role::kWorker;
  for (const Member& member : job.members) {
    if (!IsLeavingHolder(state, job, member)) continue;
    role = member.identity.role;
    if (++count > kMostShown) continue;
    absl::StrAppend(&names, count == 1 ? "" : ", ", member.identity.worker);
  }
  if (count == 0) return "";
  return absl::StrCat(Sv(NameOf(role)), count == 1 ? " " : "s ", names,
                      count > kMostShown ? ", ..." : "",
                      count == 1 ? " leaves" : " leave");
}

bool DismissLeavers(Turn& turn, Job& job, std::optional<int64_t> shard_step) {
  bool has_dismissed = false;
  if (!HasLeavingHolder(turn.state, job)) return has_dismissed;
  const std::set<int> needed = NeededLeavers(turn.state, job, shard_step);
  const bool is_relieved = needed.empty() || CanBeRelieved(turn.state, job);
  for (Member& member : job.members) {
    if (!IsLeavingHolder(turn.state, job, member)) continue;
    if (is_relieved && needed.contains(member.identity.rank)) continue;
    Dismiss(turn, job, member, is_relieved);
    has_dismissed = true;
  }
  return has_dismissed;
}

}  // namespace ringmaster::coordinator
