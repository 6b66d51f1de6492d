#include "server/coordinator/core/placement/rendezvous.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace ringmaster::coordinator {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Takes the run of digits at the start of `text`, without leading zeros.
std::string_view TakeNumber(std::string_view& text) {
  size_t end = 0;
  while (end < text.size() && IsDigit(text[end])) ++end;
  std::string_view number = text.substr(0, end);
  text.remove_prefix(end);
  while (number.size() > 1 && number.front() == '0') number.remove_prefix(1);
  return number;
}

// < 0, 0, > 0; may be 0 for texts that differ in leading zeros only.
int NaturalCompare(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    if (IsDigit(a.front()) && IsDigit(b.front())) {
      const std::string_view x = TakeNumber(a);
      const std::string_view y = TakeNumber(b);
      if (x.size() != y.size()) return x.size() < y.size() ? -1 : 1;
      if (const int order = x.compare(y); order != 0) return order;
      continue;
    }
    if (a.front() != b.front()) {
      return static_cast<unsigned char>(a.front()) <
                     static_cast<unsigned char>(b.front())
                 ? -1
                 : 1;
    }
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  return static_cast<int>(!a.empty()) - static_cast<int>(!b.empty());
}

// Idle workers that other jobs are to have.
using Taken = std::set<const Worker*>;

// A job's view of the idle workers of one role.
struct Pool {
  const State& state;
  const Job& job;
  v1::Role role;
  Taken taken = {};
};

bool IsAvailable(const Pool& pool, const Worker& worker, Hosts hosts) {
  const auto& [state, job, role, taken] = pool;
  if (worker.role != role || !IsIdle(worker) || taken.contains(&worker) ||
      IsOfAnother(job, worker)) {
    return false;
  }
  const HostQuarantine* const quarantine =
      state.QuarantineOf(job, worker.host_key);
  const bool is_taken =
      quarantine == nullptr || (hosts == Hosts::kAll && !quarantine->is_unfit);
  const bool prepares =
      worker.rehearsal.has_value() && !worker.rehearsal->is_ready;
  if (hosts == Hosts::kReady && prepares) return false;
  return is_taken && BadLinkOf(state, job, worker) == nullptr;
}

int CountIn(const Pool& pool, Hosts hosts) {
  return static_cast<int>(
      std::count_if(pool.state.workers.begin(), pool.state.workers.end(),
                    [&](const auto& entry) {
                      return IsAvailable(pool, entry.second, hosts);
                    }));
}

Hosts HostsIn(const Pool& pool, int needed) {
  for (const Hosts hosts : {Hosts::kReady, Hosts::kSound}) {
    if (CountIn(pool, hosts) >= needed) return hosts;
  }
  return Hosts::kAll;
}

std::vector<const Worker*> PackedIn(const Pool& pool, Hosts hosts) {
  std::vector<const Worker*> idle;
  std::map<std::string_view, uint64_t> first_join;
  for (const auto& [name, worker] : pool.state.workers) {
    if (!IsAvailable(pool, worker, hosts)) continue;
    idle.push_back(&worker);
    const auto [it, is_new] =
        first_join.emplace(worker.host_key, worker.join_order);
    if (!is_new) it->second = std::min(it->second, worker.join_order);
  }
  std::sort(idle.begin(), idle.end(), [&](const Worker* a, const Worker* b) {
    const uint64_t a_host = first_join.at(a->host_key);
    const uint64_t b_host = first_join.at(b->host_key);
    return a_host != b_host ? a_host < b_host : NaturalLess(a->name, b->name);
  });
  return idle;
}

// The fewest and the most of that role that a job begins with.
int LeastOf(const Job& job, v1::Role role) {
  return role == v1::ROLE_WORKER ? job.min_workers : job.sharding.servers;
}
int MostOf(const Job& job, v1::Role role) {
  return role == v1::ROLE_WORKER ? job.max_workers : job.sharding.servers;
}

// The classes of IsBefore.
enum class Claim { kToGoOn, kToBegin, kReserved, kNone };

Claim ClaimOf(const Job& job) {
  switch (job.state) {
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

// Returns how many idle workers of `pool`, which is its job's, are not for
// `viewer`, which comes later. A job that cannot go on yet does not hold up
// another that can.
int ClaimedIn(const Pool& pool, const Job& viewer) {
  const auto& [state, job, role, taken] = pool;
  const int least = LeastOf(job, role);
  int claimed = job.is_reserving ? least : 0;
  switch (ClaimOf(job)) {
    case Claim::kToGoOn:
      if (job.ending.has_value() || job.halt_intent != HaltIntent::kReform)
        return 0;
      claimed = LeastCount(job, role) - AliveCount(job, role);
      if (ClaimOf(viewer) == Claim::kToGoOn &&
          claimed > CountIn(pool, Hosts::kAll)) {
        return 0;
      }
      break;
    case Claim::kToBegin:
      if (CountIn(pool, Hosts::kAll) >= least) claimed = MostOf(job, role);
      break;
    case Claim::kReserved:
      break;
    case Claim::kNone:
      claimed = 0;
      break;
  }
  return std::max(0, claimed);
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
      it != state.jobs.end() && it->second.state == v1::JOB_STATE_QUEUED) {
    add(it->second);
  }
  std::sort(claimants.begin(), claimants.end(),
            [](const Job* a, const Job* b) { return IsBefore(*a, *b); });
  return claimants;
}

Pool PoolOf(const State& state, const Job& job, v1::Role role) {
  Taken taken;
  for (const Job* const before : ClaimantsBefore(state, job)) {
    const Pool pool{state, *before, role, taken};
    const int claimed = ClaimedIn(pool, job);
    if (claimed == 0) continue;
    const int needed = std::min(claimed, LeastOf(*before, role));
    std::vector<const Worker*> workers = PackedIn(pool, HostsIn(pool, needed));
    if (workers.size() > static_cast<size_t>(claimed)) workers.resize(claimed);
    taken.insert(workers.begin(), workers.end());
  }
  return {state, job, role, std::move(taken)};
}

using Order = std::vector<const Worker*>;

// Returns the best of `joining` for the place after `before` (null: the first
// place): one of its host, otherwise one of a host without a member, otherwise
// the first.
Order::iterator BestFor(const Worker* before, const Order& members,
                        Order& joining) {
  const auto of_host = [](const Worker* host) {
    return
        [host](const Worker* one) { return one->host_key == host->host_key; };
  };
  if (before != nullptr) {
    const auto it =
        std::find_if(joining.begin(), joining.end(), of_host(before));
    if (it != joining.end()) return it;
  }
  const auto it =
      std::find_if(joining.begin(), joining.end(), [&](const Worker* one) {
        return std::none_of(members.begin(), members.end(), of_host(one));
      });
  return it != joining.end() ? it : joining.begin();
}

// Every member at its rank and the joining in the gaps; empty if they do not
// fill them.
Order InPlace(const Order& members, Order joining, int first_rank) {
  Order order(members.size() + joining.size(), nullptr);
  for (const Worker* member : members) {
    const int place = member->rank - first_rank;
    const bool fits = place >= 0 && place < static_cast<int>(order.size()) &&
                      order[place] == nullptr;
    if (!fits) return {};
    order[place] = member;
  }
  for (size_t rank = 0; rank < order.size(); ++rank) {
    if (order[rank] != nullptr) continue;
    const auto best =
        BestFor(rank == 0 ? nullptr : order[rank - 1], members, joining);
    order[rank] = *best;
    joining.erase(best);
  }
  return order;
}

bool IsPacked(const Order& order) {
  std::set<std::string_view> hosts;
  std::string_view last;
  for (size_t i = 0; i < order.size(); ++i) {
    const std::string_view host = order[i]->host_key;
    if (i > 0 && host == last) continue;
    if (!hosts.insert(host).second) return false;
    last = host;
  }
  return true;
}

Order Packed(const Order& members, const Order& joining) {
  Order all = members;
  all.insert(all.end(), joining.begin(), joining.end());
  std::map<std::string_view, size_t> first;
  for (size_t i = 0; i < all.size(); ++i) first.emplace(all[i]->host_key, i);
  std::stable_sort(all.begin(), all.end(),
                   [&](const Worker* a, const Worker* b) {
                     return first.at(a->host_key) < first.at(b->host_key);
                   });
  return all;
}

}  // namespace

bool NaturalLess(std::string_view a, std::string_view b) {
  const int order = NaturalCompare(a, b);
  return order != 0 ? order < 0 : a < b;
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

bool IsBefore(const Job& a, const Job& b) {
  return std::pair(ClaimOf(a), a.number) < std::pair(ClaimOf(b), b.number);
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

Hosts HostsFor(const State& state, const Job& job, int needed, v1::Role role) {
  return HostsIn(PoolOf(state, job, role), needed);
}

int IdleCount(const State& state, const Job& job, Hosts hosts, v1::Role role) {
  return CountIn(PoolOf(state, job, role), hosts);
}

std::vector<const Worker*> PackedIdleWorkers(const State& state, const Job& job,
                                             Hosts hosts, v1::Role role) {
  return PackedIn(PoolOf(state, job, role), hosts);
}

MonotonicTime LastIdleJoin(const State& state, const Job& job, Hosts hosts,
                           v1::Role role) {
  const Pool pool = PoolOf(state, job, role);
  MonotonicTime last;
  for (const auto& [name, worker] : state.workers) {
    if (IsAvailable(pool, worker, hosts)) {
      last = std::max(last, worker.joined_at);
    }
  }
  return last;
}

bool CanBegin(const State& state, const Job& job) {
  for (const v1::Role role : {v1::ROLE_WORKER, v1::ROLE_PARAMETER_SERVER}) {
    const int least = LeastOf(job, role);
    if (least > 0 && IdleCount(state, job, Hosts::kAll, role) < least) {
      return false;
    }
  }
  return true;
}

bool CouldBegin(const State& state, const Job& job) {
  const auto count = [&](v1::Role role) {
    return std::count_if(
        state.workers.begin(), state.workers.end(), [&](const auto& entry) {
          const Worker& worker = entry.second;
          const HostQuarantine* const quarantine =
              state.QuarantineOf(job, worker.host_key);
          return worker.role == role && worker.session != 0 &&
                 worker.state != v1::WORKER_STATE_DRAINING &&
                 (quarantine == nullptr || !quarantine->is_unfit);
        });
  };
  return count(v1::ROLE_WORKER) >= job.min_workers &&
         count(v1::ROLE_PARAMETER_SERVER) >= job.sharding.servers;
}

std::vector<const Worker*> OrderRanks(const std::vector<const Worker*>& members,
                                      const std::vector<const Worker*>& joining,
                                      int first_rank) {
  const Order order = InPlace(members, joining, first_rank);
  return !order.empty() && IsPacked(order) ? order : Packed(members, joining);
}

MonotonicTime GangTime(const Job& job, int idle_count, MonotonicTime last_join,
                       MonotonicTime now) {
  if (idle_count >= job.max_workers) return now;
  if (idle_count < job.min_workers) return MonotonicTime::InfiniteFuture();
  return std::max(job.gathering_since, last_join) + job.settle;
}

MemberIdentity IdentityOf(const Worker& worker) {
  MemberIdentity identity;
  identity.worker = worker.name;
  identity.incarnation = worker.incarnation;
  identity.host = worker.host;
  identity.host_key = worker.host_key;
  identity.pid = worker.pid;
  identity.data_address = worker.data_address;
  identity.device = worker.device;
  identity.role = worker.role;
  identity.resume_key_hash = worker.resume_key_hash;
  return identity;
}

std::vector<MemberIdentity> AssignRanks(
    const std::vector<const Worker*>& workers) {
  std::vector<MemberIdentity> table;
  std::map<std::pair<std::string_view, v1::Role>, int> on_host;
  table.reserve(workers.size());
  for (const Worker* worker : workers) {
    MemberIdentity identity = IdentityOf(*worker);
    identity.rank = static_cast<int>(table.size());
    identity.local_rank = on_host[{worker->host_key, worker->role}]++;
    table.push_back(std::move(identity));
  }
  return table;
}

}  // namespace ringmaster::coordinator
