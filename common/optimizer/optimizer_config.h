// OptimizerConfig is what a job says about its optimizer.
#ifndef RINGMASTER_COMMON_OPTIMIZER_OPTIMIZER_CONFIG_H_
#define RINGMASTER_COMMON_OPTIMIZER_OPTIMIZER_CONFIG_H_

#include <string>

#include "absl/status/status.h"

namespace ringmaster {

struct OptimizerConfig {
  std::string kind = "adamw";   // the only one
  double learning_rate = 1e-3;  // > 0
  double beta1 = 0.9;           // in [0, 1)
  double beta2 = 0.999;         // in [0, 1)
  double epsilon = 1e-8;        // >= 1e-30
  double weight_decay = 0.01;   // >= 0; decoupled, applied to every parameter
  // >= 0; the global gradient norm is clipped to this; 0: no clipping.
  double clip_norm = 0;

  // INVALID_ARGUMENT names the first bad field as "optimizer.<field>", with its
  // value and its bounds.
  [[nodiscard]] absl::Status Validate() const;
  // One line, equal for equal settings; for Plan's settings.
  std::string CanonicalText() const;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_OPTIMIZER_OPTIMIZER_CONFIG_H_
