#include "common/plan/topology.h"

#include <map>
#include <utility>

namespace ringmaster {

Topology::Topology(std::vector<int> host_of_rank)
    : host_of_rank_(std::move(host_of_rank)) {
  std::map<int, int> number_of;  // as it was given to ours
  for (size_t rank = 0; rank < host_of_rank_.size(); ++rank) {
    const auto [it, is_new] =
        number_of.emplace(host_of_rank_[rank], host_count());
    if (is_new) ranks_of_host_.emplace_back();
    host_of_rank_[rank] = it->second;
    ranks_of_host_[static_cast<size_t>(it->second)].push_back(
        static_cast<int>(rank));
  }
}

Topology Topology::OfHosts(const std::vector<int>& ranks_per_host) {
  std::vector<int> host_of_rank;
  for (size_t host = 0; host < ranks_per_host.size(); ++host) {
    host_of_rank.insert(host_of_rank.end(),
                        static_cast<size_t>(ranks_per_host[host]),
                        static_cast<int>(host));
  }
  return Topology(std::move(host_of_rank));
}

Topology Topology::OneHost(int world_size) {
  return Topology(std::vector<int>(static_cast<size_t>(world_size), 0));
}

}  // namespace ringmaster
