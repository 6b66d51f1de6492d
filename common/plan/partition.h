// The division of a range of elements among ranks: ring chunks and the parts of
// a global batch.
//
// Thread-safety: pure functions and values.
#ifndef RINGMASTER_COMMON_PLAN_PARTITION_H_
#define RINGMASTER_COMMON_PLAN_PARTITION_H_

#include <cstdint>

namespace ringmaster {

// The elements [begin, begin + count).
struct ElemRange {
  int64_t begin = 0;
  int64_t count = 0;

  int64_t end() const { return begin + count; }
  bool empty() const { return count == 0; }
  friend bool operator==(const ElemRange&, const ElemRange&) = default;
};

// The part of [0, num_elems) that belongs to `rank`: of a buffer, the chunk
// that it holds fully reduced after a reduce-scatter; of a global batch, the
// samples that it computes. Ranges tile the input in rank order; the first
// num_elems % world_size ranks hold one extra element; a range may be empty.
// Requires 0 <= rank < world_size and num_elems >= 0.
ElemRange ChunkOf(int rank, int world_size, int64_t num_elems);

// The part of a global batch that `rank` computes, where `group` samples are
// computed together: whole groups, of which the batch has so many. Requires also
// group >= 1, which divides global_batch.
ElemRange PartOfBatch(int rank, int world_size, int64_t global_batch,
                      int64_t group);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PLAN_PARTITION_H_
