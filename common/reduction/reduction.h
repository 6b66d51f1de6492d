// Reduction names how a collective combines the elements of all ranks. Pure.
#ifndef RINGMASTER_COMMON_REDUCTION_REDUCTION_H_
#define RINGMASTER_COMMON_REDUCTION_REDUCTION_H_

#include <cstdint>

namespace ringmaster {

// The values are in frames: never renumber, only append.
enum class Reduction : uint8_t {
  kSum = 1,
  kMax,      // of a NaN and anything: NaN
  kMin,      // the same
  kAverage,  // the sum divided by the world size; floating point only
};

// "sum", "max", "min", "average"; "unknown" outside the enum.
[[nodiscard]] const char* ReductionName(Reduction reduction);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_REDUCTION_REDUCTION_H_
