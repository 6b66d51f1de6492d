#include "server/coordinator/core/rendezvous.h"

#include <algorithm>
#include <map>
#include <string>

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

bool IsAvailable(const Worker& worker) {
  return worker.state == WorkerState::kIdle && worker.session != 0 &&
         worker.role == Role::kWorker;
}

}  // namespace

bool NaturalLess(std::string_view a, std::string_view b) {
  const int order = NaturalCompare(a, b);
  return order != 0 ? order < 0 : a < b;
}

int IdleCount(const State& state) {
  return static_cast<int>(std::count_if(
      state.workers.begin(), state.workers.end(),
      [](const auto& entry) { return IsAvailable(entry.second); }));
}

std::vector<const Worker*> PackedIdleWorkers(const State& state) {
  std::vector<const Worker*> idle;
  std::map<std::string_view, uint64_t> first_join;
  for (const auto& [name, worker] : state.workers) {
    if (!IsAvailable(worker)) continue;
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

MonotonicTime LastIdleJoin(const State& state) {
  MonotonicTime last;
  for (const auto& [name, worker] : state.workers) {
    if (IsAvailable(worker)) last = std::max(last, worker.joined_at);
  }
  return last;
}

MonotonicTime GangTime(const Job& job, int idle_count, MonotonicTime last_join,
                       MonotonicTime now) {
  if (idle_count >= job.max_workers) return now;
  if (idle_count < job.min_workers) return MonotonicTime::InfiniteFuture();
  return std::max(job.gathering_since, last_join) + job.settle;
}

std::vector<MemberIdentity> AssignRanks(
    const std::vector<const Worker*>& workers) {
  std::vector<MemberIdentity> table;
  std::map<std::string_view, int> on_host;
  table.reserve(workers.size());
  for (const Worker* worker : workers) {
    MemberIdentity identity;
    identity.rank = static_cast<int>(table.size());
    identity.local_rank = on_host[worker->host_key]++;
    identity.worker = worker->name;
    identity.incarnation = worker->incarnation;
    identity.host = worker->host;
    identity.host_key = worker->host_key;
    identity.pid = worker->pid;
    identity.data_address = worker->data_address;
    identity.device = worker->device;
    table.push_back(std::move(identity));
  }
  return table;
}

}  // namespace ringmaster::coordinator
