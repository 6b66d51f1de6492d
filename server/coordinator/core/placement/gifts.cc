#include "server/coordinator/core/placement/gifts.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/coordinator/core/placement/idle_pool.h"
#include "server/coordinator/core/placement/rendezvous.h"
#include "server/coordinator/core/state/config.h"

namespace ringmaster::coordinator {
namespace {

// Of jobs, and of workers.
constexpr size_t kMostNamed = 4;

bool EndsSoon(const Job& job) {
  return job.ending.has_value() || job.cancel_reason.has_value() ||
         (job.state == v1::JOB_STATE_HALTING &&
          job.halt_intent != HaltIntent::kReform);
}

// Returns true if its members have halted, and it waits for workers rather than
// for somebody or something else.
bool WaitsToGoOn(const Job& job) {
  return job.state == v1::JOB_STATE_GATHERING && !IsNew(job) &&
         !job.waits_for_journal && !job.awaits_successor &&
         job.return_deadline == MonotonicTime::InfiniteFuture() &&
         job.holders_deadline == MonotonicTime::InfiniteFuture();
}

bool WaitsToBegin(const Job& job) {
  return job.state == v1::JOB_STATE_QUEUED ||
         (job.state == v1::JOB_STATE_GATHERING && IsNew(job));
}

std::vector<const Job*> Takers(const State& state) {
  std::vector<const Job*> takers;
  for (const int64_t number : state.active_jobs) {
    const Job& job = state.jobs.at(number);
    if (WaitsToGoOn(job) && !EndsSoon(job)) takers.push_back(&job);
  }
  const auto first = state.jobs.find(state.first_lacking);
  if (first != state.jobs.end() && WaitsToBegin(first->second) &&
      !EndsSoon(first->second)) {
    takers.push_back(&first->second);
  }
  std::sort(takers.begin(), takers.end(),
            [](const Job* a, const Job* b) { return IsBefore(*a, *b); });
  return takers;
}

// Returns how many workers `job` lacks to begin or go on; 0 if it lacks parameter
// servers, which nobody gives.
int LackOf(const State& state, const Job& job) {
  const int servers =
      (IsNew(job) ? job.sharding.servers
                  : LeastCount(job, v1::ROLE_PARAMETER_SERVER)) -
      AliveCount(job, v1::ROLE_PARAMETER_SERVER);
  if (servers > 0 &&
      IdlePool(state, job, v1::ROLE_PARAMETER_SERVER).Count(Hosts::kAll) <
          servers) {
    return 0;
  }
  return std::max(0, job.min_workers - AliveCount(job, v1::ROLE_WORKER) -
                         IdlePool(state, job).Count(Hosts::kAll));
}

// What a job can give.
struct Giver {
  const Job* job = nullptr;
  // How many members it has beyond its min.
  int spare = 0;
  // Its members that could be of another job, those with the lowest ranks first.
  std::vector<const Worker*> workers = {};
};

Giver GiverOf(const State& state, const Job& job) {
  Giver giver = {.job = &job};
  const bool may_give =
      !IsNew(job) && !EndsSoon(job) && !job.is_benchmark && !job.runs_commands;
  if (!may_give) return giver;
  giver.spare = -job.min_workers;
  for (const Member& member : job.members) {
    if (member.is_lost || member.identity.role != v1::ROLE_WORKER) continue;
    const Worker* const worker = state.FindWorker(member.identity.worker);
    const bool stays =
        worker != nullptr && worker->state != v1::WORKER_STATE_DRAINING;
    const Cordon* const cordon = stays ? state.CordonOf(*worker) : nullptr;
    if (!stays || (cordon != nullptr && cordon->drains)) continue;
    ++giver.spare;
    // One of an older release could not be released by a job that goes on.
    if (cordon == nullptr && worker->session != 0 && !worker->is_cut_off &&
        worker->protocol >= kLeaveProtocol) {
      giver.workers.push_back(worker);
    }
  }
  return giver;
}

bool MayTake(const State& state, const Job& taker, const Worker& worker) {
  const HostQuarantine* const quarantine =
      state.QuarantineOf(taker, worker.host_key);
  return (quarantine == nullptr || !quarantine->is_unfit) &&
         BadLinkOf(state, taker, worker) == nullptr;
}

// Takes the worker that is given to `taker` next from `givers`; without a worker if
// they have none to give.
Gift TakeNext(const State& state, const Job& taker,
              std::vector<Giver>& givers) {
  Giver* best = nullptr;
  size_t best_at = 0;
  for (Giver& giver : givers) {
    if (giver.job == &taker || giver.spare <= 0) continue;
    if (best != nullptr && giver.spare < best->spare) continue;
    for (size_t at = giver.workers.size(); at-- > 0;) {
      if (!MayTake(state, taker, *giver.workers[at])) continue;
      best = &giver;
      best_at = at;
      break;
    }
  }
  if (best == nullptr) return {};
  const Gift gift = {best->workers[best_at], best->job, &taker};
  best->workers.erase(best->workers.begin() +
                      static_cast<std::ptrdiff_t>(best_at));
  --best->spare;
  return gift;
}

}  // namespace

std::vector<Gift> Gifts(const State& state) {
  std::vector<Gift> gifts;
  std::vector<Giver> givers;
  for (const Job* const taker : Takers(state)) {
    const int lack = LackOf(state, *taker);
    if (lack == 0) continue;
    if (givers.empty()) {
      for (const int64_t number : state.active_jobs) {
        givers.push_back(GiverOf(state, state.jobs.at(number)));
      }
    }
    std::vector<Giver> left = givers;
    std::vector<Gift> taken;
    while (static_cast<int>(taken.size()) < lack) {
      const Gift gift = TakeNext(state, *taker, left);
      if (gift.worker == nullptr) break;
      taken.push_back(gift);
    }
    if (static_cast<int>(taken.size()) < lack) continue;
    gifts.insert(gifts.end(), taken.begin(), taken.end());
    givers = std::move(left);
  }
  return gifts;
}

std::string GiftsText(const State& state, const Job& taker) {
  std::vector<std::string> givers;
  std::vector<std::string> workers;
  for (const Gift& gift : Gifts(state)) {
    if (gift.taker != &taker) continue;
    workers.push_back(gift.worker->name);
    if (std::find(givers.begin(), givers.end(), gift.giver->id) ==
        givers.end()) {
      givers.push_back(gift.giver->id);
    }
  }
  if (workers.empty()) return "";
  std::sort(workers.begin(), workers.end(), NaturalLess);
  std::string text = givers.size() <= kMostNamed
                         ? absl::StrCat(givers.size() == 1 ? "job " : "jobs ",
                                        absl::StrJoin(givers, ", "))
                         : absl::StrCat(givers.size(), " jobs");
  absl::StrAppend(&text, givers.size() == 1 ? " gives it " : " give it ");
  if (workers.size() > kMostNamed) {
    absl::StrAppend(&text, workers.size(), " workers");
  } else {
    absl::StrAppend(&text, workers.size() == 1 ? "worker " : "workers ",
                    absl::StrJoin(workers, ", "));
  }
  return text;
}

}  // namespace ringmaster::coordinator
