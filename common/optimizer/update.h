// Update and OptimizerSlice: the arguments of every optimizer's update.
#ifndef RINGMASTER_COMMON_OPTIMIZER_UPDATE_H_
#define RINGMASTER_COMMON_OPTIMIZER_UPDATE_H_

#include <cstdint>

#include "absl/types/span.h"

namespace ringmaster {

struct Update {
  int64_t step = 1;          // the first one is 1
  double learning_rate = 0;  // of this step; see LearningRateAt
  // Multiplies the gradients first, for clipping (see ClipFactor) or for
  // turning a sum into a mean.
  double gradient_scale = 1;
  // True if the config's weight_decay applies to this slice; see DecaysWeights.
  bool decays = true;
  // If it is not 0, the slice is of running statistics, which no optimizer
  // trains: p -= tracking_rate * statistic_scale * gradient, and moments stay as
  // they are. See TensorSpec.
  double tracking_rate = 0;
  // gradient_scale without the clipping.
  double statistic_scale = 1;
};

// The memory that an update reads, if it differs from the memory that it
// writes.
template <typename T>
struct OptimizerSource {
  absl::Span<const T> parameters = {};
  absl::Span<const T> first_moment = {};
  absl::Span<const T> second_moment = {};
};

// The same slice of the arenas: equal lengths, except that a moment which the
// optimizer does not have (see MomentsOf) may be empty. Moments start as zeros.
// T is float or double.
template <typename T>
struct OptimizerSlice {
  absl::Span<T> parameters;
  absl::Span<const T> gradients;
  absl::Span<T> first_moment = {};
  absl::Span<T> second_moment = {};
  // If it has parameters, the update reads from there, gives the same bits as
  // in place, and does not change it; none of it may overlap the above.
  OptimizerSource<T> from = {};

  [[nodiscard]] bool is_in_place() const { return from.parameters.empty(); }
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_OPTIMIZER_UPDATE_H_
