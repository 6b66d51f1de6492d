// AdamWCoefficients: the values that all elements of an AdamW step share,
// wherever it is computed.
#ifndef RINGMASTER_COMMON_OPTIMIZER_ADAMW_COEFFICIENTS_H_
#define RINGMASTER_COMMON_OPTIMIZER_ADAMW_COEFFICIENTS_H_

#include "common/optimizer/optimizer_config.h"
#include "common/optimizer/update.h"

namespace ringmaster {

template <typename T>
struct AdamWCoefficients {
  T gradient_scale;
  T beta1, one_minus_beta1;
  T beta2, one_minus_beta2;
  T decay;            // 1 - learning_rate * weight_decay
  T step_size;        // learning_rate / (1 - beta1^step)
  T root_correction;  // 1 / sqrt(1 - beta2^step)
  T epsilon;
};

// Returns the same bits on every processor. Requires update.step >= 1. T is
// float or double.
template <typename T>
AdamWCoefficients<T> AdamWCoefficientsOf(const OptimizerConfig& config,
                                         const Update& update);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_OPTIMIZER_ADAMW_COEFFICIENTS_H_
