// ApplyOptimizer updates parameters with the optimizer that the config names,
// on all threads of a pool.
//
// Guarantees: those of adamw.h, so the result is the same for every pool.
// No allocation.
// Example, for a range of elements that lies in one tensor of `dims`
// dimensions:
//   ApplyOptimizer<float>(pool, config,
//                         {.step = step,
//                          .learning_rate = LearningRateAt(
//                              config.schedule, config.learning_rate, step,
//                              total_steps),
//                          .gradient_scale = clip,
//                          .decays = DecaysWeights(config, dims)},
//                         {parameters, gradients, first_moment,
//                         second_moment});
#ifndef RINGMASTER_COMMON_OPTIMIZER_OPTIMIZER_H_
#define RINGMASTER_COMMON_OPTIMIZER_OPTIMIZER_H_

#include "common/optimizer/optimizer_config.h"
#include "common/optimizer/update.h"
#include "common/sync/thread_pool.h"

namespace ringmaster {

// Returns the number of moments that the optimizer keeps for each parameter: 0,
// 1 (only the first) or 2.
int MomentsOf(const OptimizerConfig& config);

// Returns true if weight decay applies to a tensor of `dims` dimensions. If the
// answer differs between tensors, a caller splits its ranges at their borders.
bool DecaysWeights(const OptimizerConfig& config, int dims);

// The update of running statistics (Update::tracking_rate) as one of parameters:
// by plain gradient descent, which TrackingConfig describes.
const OptimizerConfig& TrackingConfig();
Update TrackingUpdate(const Update& update);

// Applies `update` to `slice`. Requires a valid config.
template <typename T>
void ApplyOptimizer(ThreadPool& pool, const OptimizerConfig& config,
                    const Update& update, const OptimizerSlice<T>& slice);

// The same, on the calling thread.
template <typename T>
void ApplyOptimizer(const OptimizerConfig& config, const Update& update,
                    const OptimizerSlice<T>& slice);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_OPTIMIZER_OPTIMIZER_H_
