// HostChunks divides the work of a hierarchical collective: each host adds up
// every chunk of the buffer at one of its ranks, and the owners of a chunk form
// a ring of hosts.
//
// Pure. The topology must outlive it.
#ifndef RINGMASTER_COMMON_PLAN_HOST_CHUNKS_H_
#define RINGMASTER_COMMON_PLAN_HOST_CHUNKS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/plan/partition.h"
#include "common/plan/topology.h"

namespace ringmaster {

// The owners of chunks, and the ring of hosts.
class HostChunks {
 public:
  explicit HostChunks(const Topology& topology) : topology_(topology) {
    for (int host = 0; host < topology.host_count(); ++host) {
      chunk_count_ = std::max(chunk_count_,
                              static_cast<int>(topology.RanksOf(host).size()));
    }
  }

  [[nodiscard]] int count() const { return topology_.host_count(); }
  [[nodiscard]] int chunk_count() const { return chunk_count_; }
  // `host` may be beyond either end of the ring.
  [[nodiscard]] int OwnerOf(int chunk, int host) const {
    const std::vector<int>& ranks = topology_.RanksOf(Wrap(host));
    return ranks[static_cast<size_t>(chunk) % ranks.size()];
  }
  [[nodiscard]] ElemRange PartOf(int chunk, int part, int64_t count) const {
    const ElemRange whole = ChunkOf(chunk, chunk_count_, count);
    ElemRange range = ChunkOf(Wrap(part), this->count(), whole.count);
    range.begin += whole.begin;
    return range;
  }

 private:
  [[nodiscard]] int Wrap(int host) const {
    const int m = count();
    return (host % m + m) % m;
  }

  const Topology& topology_;
  int chunk_count_ = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PLAN_HOST_CHUNKS_H_
