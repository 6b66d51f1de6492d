#include "server/coordinator/core/placement/idle_pool.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/protocol/labels.h"
#include "common/text/byte_text.h"
#include "server/coordinator/core/placement/host_spread.h"
#include "server/coordinator/core/placement/quotas.h"
#include "server/coordinator/core/placement/rendezvous.h"
#include "server/coordinator/core/state/config.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {
namespace {

// The fewest of that role that a job begins with.
int LeastOf(const Job& job, v1::Role role) {
  return role == v1::ROLE_WORKER ? job.min_workers : job.sharding.servers;
}

// The classes of IsBefore.
enum class Claim { kToGoOn, kToBegin, kReserved, kNone };

Claim ClaimOf(const Job& job) {
  switch (job.state()) {
    case v1::JOB_STATE_HALTING:
      return Claim::kToGoOn;
    case v1::JOB_STATE_GATHERING:
      return IsNew(job) ? Claim::kToBegin : Claim::kToGoOn;
    case v1::JOB_STATE_QUEUED:
      return Claim::kReserved;
    default:
      return Claim::kNone;
  }
}

// The jobs that come before `job` and may claim workers, in order.
std::vector<const Job*> ClaimantsBefore(const State& state, const Job& job) {
  std::vector<const Job*> claimants;
  const auto add = [&](const Job& other) {
    if (ClaimOf(other) != Claim::kNone && IsBefore(other, job)) {
      claimants.push_back(&other);
    }
  };
  for (const int64_t number : state.active_jobs) add(state.jobs.at(number));
  if (const auto it = state.jobs.find(state.first_lacking);
      it != state.jobs.end() && it->second.state() == v1::JOB_STATE_QUEUED &&
      WaitsToBegin(it->second)) {
    add(it->second);
  }
  std::sort(claimants.begin(), claimants.end(),
            [](const Job* a, const Job* b) { return IsBefore(*a, *b); });
  return claimants;
}

// Returns true if those who borrow idle workers now will give them back: no worker
// is of a release that cannot write a checkpoint as it leaves, and no job failed to
// write one for that lately.
bool CanLend(const State& state) {
  const auto is_older = [](const auto& entry) {
    const Worker& worker = entry.second;
    return worker.role == v1::ROLE_WORKER && IsIdle(worker) &&
           worker.protocol < kLeaveProtocol;
  };
  const auto keeps_all = [&](int64_t number) {
    return state.jobs.at(number).suspend_retry !=
           MonotonicTime::InfiniteFuture();
  };
  return std::ranges::none_of(state.workers, is_older) &&
         std::ranges::none_of(state.active_jobs, keeps_all);
}

}  // namespace

bool IsFitFor(const Job& job, const Worker& worker) {
  if (worker.role != v1::ROLE_WORKER) return true;
  return (worker.runs_commands || !job.runs_commands) &&
         worker.memory_bytes >= job.needs.memory_bytes &&
         std::includes(worker.labels.begin(), worker.labels.end(),
                       job.needs.labels.begin(), job.needs.labels.end());
}

bool IsOnOffer(const State& state, const Job& job, const Worker& worker) {
  return worker.state != v1::WORKER_STATE_DRAINING &&
         state.CordonOf(worker) == nullptr &&
         (worker.session == 0 || IsFitFor(job, worker));
}

std::string FitText(const Job& job) {
  const WorkerNeeds& needs = job.needs;
  std::vector<std::string> each;
  if (!needs.labels.empty()) each.push_back(LabelsText(needs.labels));
  if (needs.memory_bytes > 0) {
    each.push_back(absl::StrCat(FormatBytes(needs.memory_bytes), " of memory"));
  }
  return absl::StrCat(
      each.empty() ? "" : absl::StrCat(" with ", absl::StrJoin(each, ", ")),
      needs.one_per_host ? " on a host each" : "",
      job.runs_commands ? " that run commands" : "");
}

std::string NeededText(const Job& job) {
  return absl::StrCat(Counted(static_cast<size_t>(job.min_workers), "worker"),
                      FitText(job), AndServers(job.sharding.servers));
}

bool AreRivals(const State& state, const Job& a, const Job& b) {
  const Queue* const queue = QueueOf(state, a);
  if (queue != nullptr && queue->spec.has_most_workers() &&
      queue == QueueOf(state, b)) {
    return true;
  }
  const auto asks = [](const Job& job) {
    return job.runs_commands || !job.needs.labels.empty() ||
           job.needs.memory_bytes > 0;
  };
  if (!asks(a) && !asks(b)) return true;
  return std::ranges::any_of(state.workers, [&](const auto& entry) {
    const Worker& worker = entry.second;
    return worker.role == v1::ROLE_WORKER && IsIdle(worker) &&
           IsFitFor(a, worker) && IsFitFor(b, worker);
  });
}

bool IsIdle(const Worker& worker) {
  // A worker that keeps steps is free once it has said which.
  return worker.state == v1::WORKER_STATE_IDLE && worker.session != 0 &&
         (worker.keeps_steps_of.empty() || worker.phase == v1::PHASE_HALTED);
}

bool IsOfAnother(const Job& job, const Worker& worker) {
  const bool keeps_others =
      !worker.keeps_steps_of.empty() && worker.keeps_steps_of != job.id;
  return keeps_others ||
         (worker.rehearsal.has_value() && worker.rehearsal->job_id != job.id);
}

bool WaitsToBegin(const Job& job) {
  const bool is_waiting =
      job.state() == v1::JOB_STATE_QUEUED ||
      (job.state() == v1::JOB_STATE_GATHERING && IsNew(job));
  return is_waiting && !job.is_suspended && !job.ending.has_value();
}

bool IsPreemptible(const Job& job) {
  return job.can_go_on_later && !job.is_benchmark;
}

const Job* KeptFor(const State& state) {
  const auto it = state.jobs.find(state.first_lacking);
  return it != state.jobs.end() &&
                 (it->second.place.is_overdue || it->second.place.is_served)
             ? &it->second
             : nullptr;
}

int MostToBegin(const State& state, const Job& job) {
  const Job* const kept_for = KeptFor(state);
  const bool takes_all =
      kept_for == nullptr || kept_for->number == job.number ||
      kept_for->priority < job.priority || !AreRivals(state, *kept_for, job);
  if (!takes_all) return job.min_workers;
  return std::min(job.max_workers,
                  std::max(job.min_workers, MostOfQueue(state, job)));
}

bool IsBefore(const Job& a, const Job& b) {
  const auto key = [](const Job& job) {
    return std::tuple(-job.priority, job.place.borrows, ClaimOf(job),
                      job.place.turn, job.number);
  };
  return key(a) < key(b);
}

const Worker* BadLinkOf(const State& state, const Job& job,
                        const Worker& worker) {
  for (const std::string_view name :
       job.links.BadPeersOf(worker.name, state.now)) {
    const Worker* const peer = state.FindWorker(name);
    if (peer == nullptr) continue;
    const bool is_before =
        IsIdle(*peer) && peer->join_order < worker.join_order;
    if (peer->job_id == job.id || is_before) return peer;
  }
  return nullptr;
}

IdlePool::IdlePool(const State& state, const Job& job, v1::Role role)
    : IdlePool(state, job, role, Taken()) {
  for (const Job* const before : ClaimantsBefore(state, job)) {
    // What it has makes a difference only to a job that is to begin.
    const bool begins = ClaimOf(*before) == Claim::kToBegin;
    const IdlePool workers(state, *before, v1::ROLE_WORKER, taken_);
    // A job without servers lacks none and claims none.
    if (before->sharding.servers == 0) {
      Take(workers.ClaimsBefore(job, begins && workers.HasEnough()));
      continue;
    }
    const IdlePool servers(state, *before, v1::ROLE_PARAMETER_SERVER, taken_);
    const bool has_enough =
        begins && workers.HasEnough() && servers.HasEnough();
    Take(workers.ClaimsBefore(job, has_enough));
    Take(servers.ClaimsBefore(job, has_enough));
  }
}

void IdlePool::Take(const std::vector<const Worker*>& workers) {
  taken_.insert(workers.begin(), workers.end());
}

IdlePool::IdlePool(const State& state, const Job& job, v1::Role role,
                   Taken taken)
    : state_(state), job_(job), role_(role), taken_(std::move(taken)) {}

bool IdlePool::Has(const Worker& worker, Hosts hosts) const {
  if (worker.role != role_ || !IsIdle(worker) || taken_.contains(&worker) ||
      IsOfAnother(job_, worker) || !IsOnOffer(state_, job_, worker)) {
    return false;
  }
  const HostQuarantine* const quarantine =
      state_.QuarantineOf(job_, worker.host_key);
  const bool is_taken =
      quarantine == nullptr || (hosts == Hosts::kAll && !quarantine->is_unfit);
  const bool prepares =
      worker.rehearsal.has_value() && !worker.rehearsal->is_ready;
  if (hosts == Hosts::kReady && prepares) return false;
  return is_taken && BadLinkOf(state_, job_, worker) == nullptr;
}

bool IdlePool::IsSpread() const {
  return role_ == v1::ROLE_WORKER && job_.needs.one_per_host;
}

int IdlePool::Count(Hosts hosts) const {
  HostSpread spread = HostSpread::Beside(state_, job_);
  return static_cast<int>(std::count_if(
      state_.workers.begin(), state_.workers.end(), [&](const auto& entry) {
        return Has(entry.second, hosts) && spread.Take(entry.second);
      }));
}

Hosts IdlePool::HostsFor(int needed) const {
  for (const Hosts hosts : {Hosts::kReady, Hosts::kSound}) {
    if (Count(hosts) >= needed) return hosts;
  }
  return Hosts::kAll;
}

std::vector<const Worker*> IdlePool::Packed(Hosts hosts) const {
  std::vector<const Worker*> idle;
  std::unordered_map<std::string_view, uint64_t> first_join;
  for (const auto& [name, worker] : state_.workers) {
    if (!Has(worker, hosts)) continue;
    idle.push_back(&worker);
    const auto [it, is_new] =
        first_join.emplace(worker.host_key, worker.join_order);
    if (!is_new) it->second = std::min(it->second, worker.join_order);
  }
  std::vector<std::pair<uint64_t, const Worker*>> by_host;
  for (const Worker* const worker : idle) {
    by_host.emplace_back(first_join.at(worker->host_key), worker);
  }
  std::sort(by_host.begin(), by_host.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first
                              : NaturalLess(a.second->name, b.second->name);
  });
  std::transform(by_host.begin(), by_host.end(), idle.begin(),
                 [](const auto& entry) { return entry.second; });
  if (IsSpread()) {
    HostSpread spread = HostSpread::Beside(state_, job_);
    std::set<const Worker*> taken;
    // The one of a host that has prepared comes first: no other job may take it.
    for (const bool is_prepared : {true, false}) {
      for (const Worker* const worker : idle) {
        if (worker->rehearsal.has_value() == is_prepared &&
            spread.Take(*worker)) {
          taken.insert(worker);
        }
      }
    }
    std::erase_if(idle, [&taken](const Worker* worker) {
      return !taken.contains(worker);
    });
  }
  return idle;
}

MonotonicTime IdlePool::LastJoin(Hosts hosts) const {
  MonotonicTime last;
  if (IsSpread()) {
    for (const Worker* const worker : Packed(hosts)) {
      last = std::max(last, worker->joined_at);
    }
    return last;
  }
  for (const auto& [name, worker] : state_.workers) {
    if (Has(worker, hosts)) last = std::max(last, worker.joined_at);
  }
  return last;
}

bool IdlePool::HasEnough() const {
  return Count(Hosts::kAll) >= LeastOf(job_, role_);
}

std::vector<const Worker*> IdlePool::ClaimsBefore(const Job& viewer,
                                                  bool has_enough) const {
  const int claimed = CountClaimed(viewer, has_enough);
  if (claimed == 0) return {};
  const int needed = std::min(claimed, LeastOf(job_, role_));
  std::vector<const Worker*> workers = Packed(HostsFor(needed));
  if (workers.size() > static_cast<size_t>(claimed)) workers.resize(claimed);
  return workers;
}

// A job that cannot go on yet does not hold up another that can.
int IdlePool::CountClaimed(const Job& viewer, bool has_enough) const {
  const int least = LeastOf(job_, role_);
  // Those who borrow workers give them back; nobody gives servers back. A job that
  // has begun would otherwise wait with all its members.
  const bool lends = job_.place.is_overdue && !job_.place.is_served &&
                     (ClaimOf(viewer) == Claim::kToGoOn ||
                      (role_ == v1::ROLE_WORKER && IsPreemptible(viewer) &&
                       WaitsToBegin(viewer) && CanLend(state_)));
  int claimed =
      job_.place.is_served || (job_.place.is_overdue && !lends) ? least : 0;
  switch (ClaimOf(job_)) {
    case Claim::kToGoOn:
      if (job_.ending.has_value() || IntentOf(job_) != HaltIntent::kReform)
        return 0;
      claimed = LeastCount(job_, role_) - AliveCount(job_, role_);
      // Where it cannot go on with all of them, others may.
      if (ClaimOf(viewer) == Claim::kToGoOn && claimed > Count(Hosts::kAll)) {
        return 0;
      }
      break;
    case Claim::kToBegin:
      if (has_enough) {
        claimed = role_ == v1::ROLE_WORKER ? MostToBegin(state_, job_)
                                           : MostCount(job_, role_);
      }
      break;
    case Claim::kReserved:
      break;
    case Claim::kNone:
      return 0;
  }
  return std::max(0, claimed);
}

bool CanBegin(const State& state, const Job& job) {
  if (MostOfQueue(state, job) < job.min_workers) return false;
  for (const v1::Role role : {v1::ROLE_WORKER, v1::ROLE_PARAMETER_SERVER}) {
    const int least = LeastOf(job, role);
    if (least > 0 && IdlePool(state, job, role).Count(Hosts::kAll) < least) {
      return false;
    }
  }
  return true;
}

bool CouldBegin(const State& state, const Job& job) {
  int workers = job.min_workers;
  int servers = job.sharding.servers;
  HostSpread spread(job);
  for (const auto& [name, worker] : state.workers) {
    if (workers <= 0 && servers <= 0) break;
    const HostQuarantine* const quarantine =
        state.QuarantineOf(job, worker.host_key);
    if (worker.session == 0 || !IsOnOffer(state, job, worker) ||
        (quarantine != nullptr && quarantine->is_unfit)) {
      continue;
    }
    if (spread.Take(worker))
      --(worker.role == v1::ROLE_WORKER ? workers : servers);
  }
  return workers <= 0 && servers <= 0;
}

}  // namespace ringmaster::coordinator
