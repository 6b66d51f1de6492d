// Stochastic gradient descent with momentum, one pass over slices, as in
// torch.optim.SGD without dampening (Sutskever et al., "On the importance of
// initialization and momentum in deep learning", ICML 2013).
//
//   g = gradient_scale * gradient + weight_decay * p
//   m = momentum * m + g                       (none if momentum is 0)
//   p = p - learning_rate * (nesterov ? g + momentum * m : m)
//
// m is first_moment; it starts as zeros, so that the first update sets it to g.
//
// Guarantees and thread-safety: those of adamw.h.
#ifndef RINGMASTER_COMMON_OPTIMIZER_SGD_H_
#define RINGMASTER_COMMON_OPTIMIZER_SGD_H_

#include "common/optimizer/optimizer_config.h"
#include "common/optimizer/update.h"

namespace ringmaster {

// Applies `update` to `slice`, whose second_moment is not used, nor its
// first_moment if the momentum is 0. Requires a valid config.
template <typename T>
void ApplySgd(const OptimizerConfig& config, const Update& update,
              const OptimizerSlice<T>& slice);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_OPTIMIZER_SGD_H_
