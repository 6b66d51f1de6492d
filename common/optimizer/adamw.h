// AdamW, one pass over slices (Loshchilov and Hutter, "Decoupled Weight Decay
// Regularization", ICLR 2019).
//
//   g = gradient_scale * gradient
//   m = beta1 * m + (1 - beta1) * g
//   v = beta2 * v + (1 - beta2) * g * g
//   m_hat = m / (1 - beta1^step)
//   v_hat = v / (1 - beta2^step)
//   p = p * (1 - learning_rate * weight_decay)
//         - learning_rate * m_hat / (sqrt(v_hat) + epsilon)
//
// Guarantees: an element's result depends on that element alone, bit for bit:
// not on the slice it is in, its place in the slice, or the processor (no fused
// multiply-add). Ranks that hold equal inputs therefore stay equal. Zeros stay
// zeros, so padding does no harm. No allocation.
// Thread-safety: pure; disjoint slices may be updated concurrently.
#ifndef RINGMASTER_COMMON_OPTIMIZER_ADAMW_H_
#define RINGMASTER_COMMON_OPTIMIZER_ADAMW_H_

#include "common/optimizer/optimizer_config.h"
#include "common/optimizer/update.h"

namespace ringmaster {

// Applies `update` to `slice`. The learning rate is the update's, not the
// config's. Requires a valid config.
template <typename T>
void ApplyAdamW(const OptimizerConfig& config, const Update& update,
                const OptimizerSlice<T>& slice);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_OPTIMIZER_ADAMW_H_
