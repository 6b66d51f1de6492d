// OptimizerConfig is the optimizer of a job and its settings.
#ifndef RINGMASTER_COMMON_OPTIMIZER_OPTIMIZER_CONFIG_H_
#define RINGMASTER_COMMON_OPTIMIZER_OPTIMIZER_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "common/optimizer/schedule.h"

namespace ringmaster {

struct OptimizerConfig {
  std::string kind = "adamw";   // or "sgd"
  double learning_rate = 1e-3;  // > 0; the base of the schedule
  // adamw only.
  double beta1 = 0.9;     // in [0, 1)
  double beta2 = 0.999;   // in [0, 1)
  double epsilon = 1e-8;  // >= 1e-30
  // sgd only.
  double momentum = 0;    // in [0, 1)
  bool nesterov = false;  // needs a momentum
  // >= 0. adamw: decoupled; sgd: L2, added to the gradient.
  double weight_decay = 0.01;
  // Decays only tensors of two or more dimensions: neither biases nor the
  // scales of normalizations, as is usual for transformers.
  bool decay_matrices_only = false;
  // >= 0; the global gradient norm is clipped to this; 0: no clipping.
  double clip_norm = 0;
  ScheduleConfig schedule = {};
  // In (0, 1]: the rate of a tensor is multiplied by it once for each layer above its
  // own.
  double layer_decay = 1;

  // INVALID_ARGUMENT names the first bad field as "optimizer.<field>", with its
  // value and its bounds.
  [[nodiscard]] absl::Status Validate() const;

  friend bool operator==(const OptimizerConfig&,
                         const OptimizerConfig&) = default;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_OPTIMIZER_OPTIMIZER_CONFIG_H_
