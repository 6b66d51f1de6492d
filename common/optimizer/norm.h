// Gradient norms and clipping.
//
// Thread-safety: pure.
#ifndef RINGMASTER_COMMON_OPTIMIZER_NORM_H_
#define RINGMASTER_COMMON_OPTIMIZER_NORM_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace ringmaster {

// The sum of squares in double precision, added in a fixed order that depends
// on the length alone: ranks with equal inputs get equal sums. No allocation. Not finite iff an element is not finite (squares of
// finite floats cannot overflow a double; those of doubles can, which counts as
// not finite). T is float or double.
template <typename T>
double SumOfSquares(absl::Span<const T> elems);

// The same for gradients of which the first `statistics` are those of running
// statistics: they count as zeros, but the sum is not finite if one of them is
// not.
template <typename T>
double SumOfGradientSquares(absl::Span<const T> gradients, int64_t statistics) {
  const auto count = static_cast<size_t>(statistics);
  const double sum = SumOfSquares(gradients.subspan(count));
  return count == 0 ? sum : sum + 0 * SumOfSquares(gradients.first(count));
}

// Returns the factor for gradients, given the square of their global norm: 1 if
// the norm is at most `clip_norm` or if clip_norm is 0 (no clipping), otherwise
// clip_norm / norm. Requires a finite norm_squared >= 0.
double ClipFactor(double norm_squared, double clip_norm);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_OPTIMIZER_NORM_H_
