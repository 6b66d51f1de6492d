// MomentParts: the division of the optimizer's moments among ranks.
//
// A rank keeps the moments of some parts (ZeRO stage 1: Rajbhandari et al.,
// "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC
// 2020), each of which another rank keeps too (docs/decisions/0066). A part is a
// chunk of every bucket: of a bucket's gradient a reduce-scatter among as many
// ranks completes exactly that. Generations of different sizes cut different
// parts, so ranks compare what they keep by its elements.
// Pure.
#ifndef RINGMASTER_WORKER_TRAIN_STATE_MOMENT_PARTS_H_
#define RINGMASTER_WORKER_TRAIN_STATE_MOMENT_PARTS_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "common/plan/partition.h"
#include "common/plan/plan.h"
#include "common/plan/topology.h"

namespace ringmaster {

// Chunk `index` of `count` of every bucket; by default all of them.
struct MomentPart {
  int count = 1;
  int index = 0;

  friend auto operator<=>(const MomentPart&, const MomentPart&) = default;
};

// Returns the parts that `rank` keeps: its own first, then those that it
// mirrors.
[[nodiscard]] std::vector<MomentPart> PartsOf(int rank, int mirrors,
                                              const Topology& topology);

// Element ranges: ascending, disjoint, none empty, none adjacent.
using ElemRanges = std::vector<ElemRange>;

// Returns the elements of all of `parts`.
[[nodiscard]] ElemRanges RangesOf(absl::Span<const MomentPart> parts,
                                  const Plan& plan);

// Returns the elements of [0, total) that are not in `ranges`.
[[nodiscard]] ElemRanges Complement(const ElemRanges& ranges, int64_t total);

// Returns the elements that are in both.
[[nodiscard]] ElemRanges Intersection(const ElemRanges& a, const ElemRanges& b);

// The elements that a rank has, and those that it is to have.
struct Possession {
  ElemRanges held = {};
  ElemRanges wanted = {};
};

// `source` has these elements, and some rank lacks them.
struct Transfer {
  ElemRange range;
  int source = 0;

  friend bool operator==(const Transfer&, const Transfer&) = default;
};

// Returns what has to be sent for all ranks to have what they are to have, by
// source: each time the lowest rank that has it. nullopt: of some element of
// [0, total) no rank has anything.
[[nodiscard]] std::optional<std::vector<Transfer>> PlanTransfers(
    absl::Span<const Possession> ranks, int64_t total);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STATE_MOMENT_PARTS_H_
