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

using Order = std::vector<const Worker*>;

// Returns the best of `joining` for the place after `before` (null: the first
// place): one of its container, otherwise one of its host, otherwise one of a
// host without a member, otherwise the first.
Order::iterator BestFor(const Worker* before, const Order& members,
                        Order& joining) {
  const auto of_host = [](const Worker* host) {
    return
        [host](const Worker* one) { return one->host_key == host->host_key; };
  };
  if (before != nullptr) {
    auto it =
        std::find_if(joining.begin(), joining.end(), [&](const Worker* one) {
          return ContainerOf(*one) == ContainerOf(*before);
        });
    if (it == joining.end())
      it = std::find_if(joining.begin(), joining.end(), of_host(before));
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

// Those with the same key follow one another.
template <typename KeyOf>
bool IsPackedBy(const KeyOf& key_of, const Order& order) {
  std::set<decltype(key_of(*order.front()))> seen;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto key = key_of(*order[i]);
    if (i > 0 && key == key_of(*order[i - 1])) continue;
    if (!seen.insert(key).second) return false;
  }
  return true;
}

bool IsPacked(const Order& order) {
  return IsPackedBy(ContainerOf<Worker>, order) &&
         IsPackedBy(
             [](const Worker& one) -> std::string_view { return one.host_key; },
             order);
}

Order Packed(const Order& members, const Order& joining) {
  Order all = members;
  all.insert(all.end(), joining.begin(), joining.end());
  std::map<std::string_view, size_t> host;
  std::map<ContainerKey, size_t> container;
  for (size_t i = 0; i < all.size(); ++i) {
    host.emplace(all[i]->host_key, i);
    container.emplace(ContainerOf(*all[i]), i);
  }
  const auto place = [&](const Worker* one) {
    return std::pair(host.at(one->host_key), container.at(ContainerOf(*one)));
  };
  std::stable_sort(
      all.begin(), all.end(),
      [&](const Worker* a, const Worker* b) { return place(a) < place(b); });
  return all;
}

}  // namespace

bool NaturalLess(std::string_view a, std::string_view b) {
  const int order = NaturalCompare(a, b);
  return order != 0 ? order < 0 : a < b;
}

std::vector<const Worker*> OrderRanks(const std::vector<const Worker*>& members,
                                      const std::vector<const Worker*>& joining,
                                      int first_rank) {
  const Order order = InPlace(members, joining, first_rank);
  return !order.empty() && IsPacked(order) ? order : Packed(members, joining);
}

MonotonicTime GangTime(const Job& job, int most, int idle_count,
                       MonotonicTime last_join, MonotonicTime now) {
  if (idle_count >= most) return now;
  if (idle_count < job.min_workers) return MonotonicTime::InfiniteFuture();
  return std::max(std::get<stage::Gathering>(job.stage).since, last_join) +
         job.settle;
}

MemberIdentity IdentityOf(const Worker& worker) {
  MemberIdentity identity;
  identity.worker = worker.name;
  identity.incarnation = worker.incarnation;
  identity.host = worker.host;
  identity.host_key = worker.host_key;
  identity.container = worker.container;
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
  std::map<std::pair<ContainerKey, v1::Role>, int> in_container;
  table.reserve(workers.size());
  for (const Worker* worker : workers) {
    MemberIdentity identity = IdentityOf(*worker);
    identity.rank = static_cast<int>(table.size());
    identity.local_rank = in_container[{ContainerOf(*worker), worker->role}]++;
    table.push_back(std::move(identity));
  }
  return table;
}

}  // namespace ringmaster::coordinator
