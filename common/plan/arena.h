// Arena is one fixed block of elements with a role: all parameters, all
// gradients, ...
//
// Guarantees: zeroed at creation, never grows, never moves. Every arena of a
// job has the layout of the job's Plan, so a slice [begin, begin + count) means
// the same elements in each of them.
// Thread-safety: thread-compatible; disjoint slices may be used by different
// threads.
// Ownership: owns its memory; the Allocator must outlive it.
// Example:
//   ASSIGN_OR_RETURN(Arena gradients,
//                    Arena::Create(ArenaRole::kGradients, DType::kFloat32,
//                                  plan.total_elems(), allocator));
//   absl::Span<float> bucket =
//       gradients.Slice<float>(plan.buckets()[0].range);
#ifndef RINGMASTER_COMMON_PLAN_ARENA_H_
#define RINGMASTER_COMMON_PLAN_ARENA_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/plan/partition.h"
#include "common/status/check.h"
#include "common/tensor/allocator.h"
#include "common/tensor/dtype.h"

namespace ringmaster {

enum class ArenaRole {
  kParameters,  // what the model computes with
  kMaster,      // full-precision parameters, where kParameters is narrower
  kGradients,
  kFirstMoment,   // the optimizer's m
  kSecondMoment,  // the optimizer's v
  kBuffers,       // anything else with a fixed size: activations, scratch
};

// "parameters", "first_moment", ...
std::string_view ArenaRoleName(ArenaRole role);

class Arena {
 public:
  // Allocates `num_elems` zeroed elements. Errors are the allocator's, with the
  // role and the size added.
  [[nodiscard]] static absl::StatusOr<Arena> Create(ArenaRole role, DType dtype,
                                                    int64_t num_elems,
                                                    Allocator& allocator);

  Arena(Arena&&) = default;
  Arena& operator=(Arena&&) = default;

  ArenaRole role() const { return role_; }
  DType dtype() const { return dtype_; }
  int64_t num_elems() const { return num_elems_; }
  int64_t size_bytes() const { return memory_.size_bytes(); }
  void* data() const { return memory_.data(); }
  // The contents as bytes, for hashing, checkpoints and transfers. Only for
  // memory that the host can read.
  absl::Span<const uint8_t> bytes() const {
    return {static_cast<const uint8_t*>(memory_.data()),
            static_cast<size_t>(memory_.size_bytes())};
  }

  // All elements. Requires that T is the C++ type of dtype().
  template <typename T>
  absl::Span<T> Elems() const {
    RM_CHECK(DTypeOf<T>() == dtype_, "not the type of the arena's elements");
    return {static_cast<T*>(memory_.data()), static_cast<size_t>(num_elems_)};
  }
  // The elements of `range`, which must lie inside the arena.
  template <typename T>
  absl::Span<T> Slice(ElemRange range) const {
    RM_CHECK(range.begin >= 0 && range.count >= 0 && range.end() <= num_elems_,
             "a slice outside the arena");
    return Elems<T>().subspan(static_cast<size_t>(range.begin),
                              static_cast<size_t>(range.count));
  }

 private:
  Arena(ArenaRole role, DType dtype, int64_t num_elems, Allocation memory);

  ArenaRole role_;
  DType dtype_;
  int64_t num_elems_;
  Allocation memory_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PLAN_ARENA_H_
