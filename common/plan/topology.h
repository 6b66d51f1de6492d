// Topology says which ranks share a host. Pure.
#ifndef RINGMASTER_COMMON_PLAN_TOPOLOGY_H_
#define RINGMASTER_COMMON_PLAN_TOPOLOGY_H_

#include <cstddef>
#include <vector>

namespace ringmaster {

class Topology {
 public:
  // host_of_rank[r] is the number of rank r's host; any numbers, in any order.
  explicit Topology(std::vector<int> host_of_rank);
  // The first ranks_per_host[0] ranks on the first host, and so on.
  static Topology OfHosts(const std::vector<int>& ranks_per_host);
  // All on one host.
  static Topology OneHost(int world_size);

  [[nodiscard]] int world_size() const {
    return static_cast<int>(host_of_rank_.size());
  }
  [[nodiscard]] int host_count() const {
    return static_cast<int>(ranks_of_host_.size());
  }
  [[nodiscard]] bool AreTogether(int a, int b) const {
    return host_of_rank_[static_cast<size_t>(a)] ==
           host_of_rank_[static_cast<size_t>(b)];
  }
  // Hosts numbered from 0 by their smallest rank; ranks in ascending order.
  [[nodiscard]] int HostOf(int rank) const {
    return host_of_rank_[static_cast<size_t>(rank)];
  }
  [[nodiscard]] const std::vector<int>& RanksOf(int host) const {
    return ranks_of_host_[static_cast<size_t>(host)];
  }

 private:
  std::vector<int> host_of_rank_;
  std::vector<std::vector<int>> ranks_of_host_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PLAN_TOPOLOGY_H_
