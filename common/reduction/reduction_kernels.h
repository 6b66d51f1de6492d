// The arithmetic of collectives: how elements are converted to and from the
// wire, combined, and completed at the rank that holds a result.
//
// Pure; compiled for wide vectors and chosen for the processor at run time. The
// same bits on every processor.
#ifndef RINGMASTER_COMMON_REDUCTION_REDUCTION_KERNELS_H_
#define RINGMASTER_COMMON_REDUCTION_REDUCTION_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "common/reduction/reduction.h"
#include "common/tensor/dtype.h"
#include "common/transport/channel.h"

namespace ringmaster {

// The steps of a reduction over buffers of one dtype. Integer sums wrap around.
// float16 and bfloat16 are widened to float32, combined there, and rounded to
// the nearest even. The result of combining has the same bits in either order
// of the operands: there is a single NaN, quiet and positive, and the positive
// zero counts as the larger one.
// Elements and wire need not be aligned, and must not overlap.
struct ReductionKernels {
  // To and from the wire; null where wire and memory have the same bytes.
  EncodeFn encode = nullptr;
  DecodeFn keep = nullptr;
  // elements[i] = elements[i] op wire[i]. Reports elements that are not finite
  // in either; integers always are.
  DecodeFn reduce = nullptr;
  // elements[i] = elements[i] op other[i]: the same in memory.
  DecodeFn combine = nullptr;
  // Completes `count` elements in place, at the one rank that holds their sum:
  // divides (kAverage) and rounds to the wire's precision, so that this rank
  // keeps the same values that the others will get. Null if there is nothing to
  // do.
  void (*finish)(std::byte* elements, int64_t count, int world_size) = nullptr;
  int64_t element_bytes = 0;
  int64_t wire_bytes = 0;  // of one element
};

// For buffers of `dtype` that travel as `wire`: the same dtype, or float16 or
// bfloat16 for float32.
//   INVALID_ARGUMENT  no such pair, uint8, or an average of integers
[[nodiscard]] absl::StatusOr<ReductionKernels> KernelsFor(DType dtype,
                                                          DType wire,
                                                          Reduction reduction);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_REDUCTION_REDUCTION_KERNELS_H_
