#include "server/coordinator/core/life/let_go.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/coordinator/core/life/hand_over.h"
#include "server/coordinator/core/placement/idle_pool.h"

namespace ringmaster::coordinator {
namespace {

bool IsDrained(const State& state, const Worker& worker) {
  const Cordon* const cordon = state.CordonOf(worker);
  // One of an older release could not be released by a job that goes on.
  return cordon != nullptr && cordon->drains &&
         worker.protocol >= kLeaveProtocol &&
         worker.state != v1::WORKER_STATE_DRAINING;
}

// Returns true if `worker`, which was let go, has to go even if nobody wants it to
// any more: others have taken its place. (Of workers those beyond the max go.)
bool IsReplaced(const Job& job, const Worker& worker) {
  return worker.is_let_go &&
         (job.closing == Closing::kHandOver ||
          (worker.role == v1::ROLE_PARAMETER_SERVER &&
           AliveCount(job, worker.role) > MostCount(job, worker.role)));
}

// Returns how many of that role could take the places of members. Those that
// prepare to join count while the members train, and wait for them to be ready.
int ReplacementCount(const State& state, const Job& job, v1::Role role) {
  return job.state() == v1::JOB_STATE_RUNNING
             ? IdlePool(state, job, role).Count(Hosts::kSound)
             : IdleToJoin(state, job, role);
}

// Returns the members of `job` that are due to go, if it cannot do without them;
// otherwise none. Only those count as replacements that are ready, in every state of
// the job: one that prepares would keep a member beyond its time, and if a job that has
// paused counted others, it would take the member back, and pause again.
std::vector<std::string> MustGo(const State& state, const Job& job) {
  std::vector<std::string> names;
  if (state.cordons.empty() || job.is_benchmark) return names;
  for (const Member& member : job.members) {
    const Worker* const worker =
        member.is_lost ? nullptr : state.FindWorker(member.identity.worker);
    if (worker != nullptr && IsDueToGo(state, *worker))
      names.push_back(worker->name);
  }
  const auto is_due = [&state](const Worker& worker) {
    return IsDueToGo(state, worker);
  };
  std::set<const Worker*> taken;
  if (!names.empty() && CanDoWithout(state, job, is_due, Hosts::kReady, taken))
    names.clear();
  return names;
}

// Those that are due come first.
void LetDrainedGo(const State& state, const Job& job,
                  std::vector<Worker*> drained) {
  std::stable_partition(
      drained.begin(), drained.end(),
      [&state](const Worker* worker) { return !IsDueToGo(state, *worker); });
  for (const v1::Role role : {v1::ROLE_WORKER, v1::ROLE_PARAMETER_SERVER}) {
    int spare = StayingCount(state, job, role) +
                ReplacementCount(state, job, role) - LeastCount(job, role);
    for (auto it = drained.rbegin(); it != drained.rend() && spare > 0; ++it) {
      if ((*it)->role != role || (*it)->is_let_go) continue;
      (*it)->is_let_go = true;
      --spare;
    }
  }
}

// Those that are more than `job` takes, as it was scaled, or as others have taken the
// places of some: those of `chosen` before, which others may have replaced, then the
// last.
void LetSurplusGo(State& state, const Job& job,
                  const std::set<const Worker*>& chosen) {
  // So it is with most jobs, and this looks at no worker.
  if (AliveCount(job, v1::ROLE_WORKER) <= job.max_workers) return;
  int surplus = StayingCount(state, job, v1::ROLE_WORKER) - job.max_workers;
  for (const bool is_chosen : {true, false}) {
    for (auto it = job.members.rbegin(); it != job.members.rend(); ++it) {
      if (surplus <= 0) return;
      if (it->is_lost || it->identity.role != v1::ROLE_WORKER ||
          IsLeaver(state, job, *it)) {
        continue;
      }
      Worker* const worker = state.FindWorker(it->identity.worker);
      if (worker == nullptr || worker->protocol < kLeaveProtocol ||
          chosen.contains(worker) != is_chosen) {
        continue;
      }
      worker->is_let_go = true;
      --surplus;
    }
  }
}

void LetGivenGo(State& state, const Job& job, const std::vector<Gift>& gifts) {
  const auto is_given = [&](const Gift& gift) { return gift.giver == &job; };
  if (std::ranges::none_of(gifts, is_given)) return;
  int spare = StayingCount(state, job, v1::ROLE_WORKER) - job.min_workers;
  if (spare <= 0) return;
  for (const Gift& gift : gifts) {
    if (!is_given(gift) || gift.worker->is_let_go || spare-- <= 0) continue;
    state.FindWorker(gift.worker->name)->is_let_go = true;
  }
}

}  // namespace

bool IsDueToGo(const State& state, const Worker& worker) {
  return IsDrained(state, worker) && state.CordonOf(worker)->is_due;
}

bool HasToLetDueGo(const State& state, const Job& job) {
  return !CouldGiveWay(state, job) && !MustGo(state, job).empty();
}

bool CanDoWithout(const State& state, const Job& job,
                  const std::function<bool(const Worker&)>& goes, Hosts hosts,
                  std::set<const Worker*>& taken) {
  std::vector<const Worker*> joining;
  for (const v1::Role role : {v1::ROLE_WORKER, v1::ROLE_PARAMETER_SERVER}) {
    int leaving = 0;
    int staying = 0;
    for (const Member& member : job.members) {
      const Worker* const worker =
          member.is_lost ? nullptr : state.FindWorker(member.identity.worker);
      if (worker == nullptr || worker->role != role) continue;
      if (goes(*worker)) {
        ++leaving;
      } else if (worker->state != v1::WORKER_STATE_DRAINING) {
        ++staying;
      }
    }
    if (leaving == 0) continue;
    if (job.is_benchmark || job.runs_commands) return false;
    int lacking = LeastCount(job, role) - staying;
    if (lacking <= 0) continue;
    for (const Worker* const idle : IdlePool(state, job, role).Packed(hosts)) {
      if (lacking == 0) break;
      if (taken.contains(idle)) continue;
      joining.push_back(idle);
      --lacking;
    }
    if (lacking > 0) return false;
  }
  taken.insert(joining.begin(), joining.end());
  return true;
}

void LetMembersGo(State& state, Job& job, const std::vector<Gift>& gifts) {
  job.gives_way = WhyGivesWay(state, job, gifts);
  const std::vector<std::string> due = MustGo(state, job);
  const bool waits_in_queue = CouldGiveWay(state, job);
  if (!job.gives_way.has_value() && !due.empty() && CanGiveWay(state, job)) {
    job.gives_way =
        absl::StrCat("gives way to the drain of ",
                     NamesText(state.FindWorker(due.front())->role, due));
  }
  if (!job.gives_way.has_value() &&
      job.suspend_retry == MonotonicTime::InfiniteFuture()) {
    job.has_trained_on = false;  // nobody asks it any more
  }
  std::vector<Worker*> drained;
  std::set<const Worker*> chosen;
  for (const Member& member : job.members) {
    Worker* const worker =
        member.is_lost ? nullptr : state.FindWorker(member.identity.worker);
    if (worker == nullptr || IsReplaced(job, *worker)) continue;
    if (worker->is_let_go) chosen.insert(worker);
    worker->is_let_go = job.gives_way.has_value();
    if (IsDrained(state, *worker)) drained.push_back(worker);
  }
  if (job.is_benchmark || job.gives_way.has_value()) return;
  if (!due.empty() && !waits_in_queue) {
    for (const std::string& name : due)
      state.FindWorker(name)->is_let_go = true;
  }
  if (job.runs_commands) {
    // They begin anew.
    if (job.state() != v1::JOB_STATE_RUNNING) LetSurplusGo(state, job, chosen);
    return;
  }
  if (!drained.empty()) LetDrainedGo(state, job, std::move(drained));
  LetSurplusGo(state, job, chosen);
  LetGivenGo(state, job, gifts);
}

}  // namespace ringmaster::coordinator
