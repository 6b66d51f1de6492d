#include "server/coordinator/core/life/hand_over.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/coordinator/core/account/incident.h"
#include "server/coordinator/core/account/verdict.h"
#include "server/coordinator/core/life/job_end.h"
#include "server/coordinator/core/placement/shards.h"

namespace ringmaster::coordinator {
namespace {

bool IsLeavingHolder(const State& state, const Job& job, const Member& member) {
  if (member.is_lost || !HoldsShards(job, member.identity.role)) return false;
  const Worker* const worker = state.FindWorker(member.identity.worker);
  return worker != nullptr && worker->state == v1::WORKER_STATE_DRAINING;
}

// Returns true if there is a member to give shards to: one that stays, or one
// that may join beside the `needed` leavers.
bool CanBeRelieved(const State& state, const Job& job, size_t needed) {
  const v1::Role role =
      job.sharding.IsColocated() ? v1::ROLE_WORKER : v1::ROLE_PARAMETER_SERVER;
  if (StayingCount(state, job, role) > 0) return true;
  // A worker that is needed keeps its place among `max` as long as it trains.
  const bool has_room = role == v1::ROLE_PARAMETER_SERVER ||
                        static_cast<int>(needed) < job.max_workers;
  return has_room &&
         IdleCount(state, HostsToJoinFrom(state, job, role), role) > 0;
}

// Returns the ranks of leavers that have the only copies of some shard.
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
    // If several hold it and all leave, one of them is enough.
    if (!is_kept && !holders.empty()) needed.insert(*holders.begin());
  }
  return needed;
}

// The dismissal of members that are not needed any more.
struct Dismissal {
  bool is_relieved = true;
  std::string why;
};

Dismissal DismissalOf(const State& state, const Job& job,
                      std::optional<int64_t> shard_step, bool is_rollback,
                      size_t needed) {
  if (is_rollback) {
    return {false,
            "some shard has no copy any more, so what it held is lost too"};
  }
  if (!shard_step.has_value()) {
    return {true, "no step was made that others would need it for"};
  }
  if (needed == 0 || CanBeRelieved(state, job, needed)) {
    return {true, "others hold what it held"};
  }
  return {false, "nobody is there who could take over its shards"};
}

void Dismiss(Turn& turn, Job& job, Member& member, const Dismissal& dismissal) {
  const auto& [is_relieved, why] = dismissal;
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

int StayingCount(const State& state, const Job& job, v1::Role role) {
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
  v1::Role role = v1::ROLE_WORKER;
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

Hosts HostsToJoinFrom(const State& state, const Job& job, v1::Role role) {
  return HostsFor(state, LeastCount(job, role) - StayingCount(state, job, role),
                  role);
}

bool DismissLeavers(Turn& turn, Job& job, std::optional<int64_t> shard_step,
                    bool is_rollback) {
  bool has_dismissed = false;
  if (!HasLeavingHolder(turn.state, job)) return has_dismissed;
  const std::set<int> needed = NeededLeavers(turn.state, job, shard_step);
  const Dismissal dismissal =
      DismissalOf(turn.state, job, shard_step, is_rollback, needed.size());
  for (Member& member : job.members) {
    if (!IsLeavingHolder(turn.state, job, member)) continue;
    const bool is_needed = needed.contains(member.identity.rank);
    if (is_needed && dismissal.is_relieved) continue;
    Dismiss(turn, job, member, dismissal);
    has_dismissed = true;
  }
  return has_dismissed;
}

}  // namespace ringmaster::coordinator
