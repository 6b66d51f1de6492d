#include "common/plan/partition.h"

#include <algorithm>

#include "common/status/check.h"

namespace ringmaster {

ElemRange ChunkOf(int rank, int world_size, int64_t num_elems) {
  RM_CHECK(rank >= 0 && rank < world_size && num_elems >= 0, "no such chunk");
  const int64_t base = num_elems / world_size;
  const int64_t extra = num_elems % world_size;
  const int64_t begin = rank * base + std::min<int64_t>(rank, extra);
  return {begin, base + (rank < extra ? 1 : 0)};
}

ElemRange PartOfBatch(int rank, int world_size, int64_t global_batch,
                      int64_t group) {
  const ElemRange groups = ChunkOf(rank, world_size, global_batch / group);
  return {groups.begin * group, groups.count * group};
}

}  // namespace ringmaster
