#include "common/optimizer/optimizer_config.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace ringmaster {
namespace {

absl::Status BadField(const char* field, double value, const char* bounds) {
  return absl::InvalidArgumentError(absl::StrCat(
      "optimizer.", field, " is ", value, ", but must be ", bounds));
}

}  // namespace

absl::Status OptimizerConfig::Validate() const {
  if (kind != "adamw" && kind != "sgd") {
    return absl::InvalidArgumentError(absl::StrCat(
        "optimizer.kind is \"", kind, "\"; known are adamw and sgd"));
  }
  // Written so that NaN fails each of them.
  if (!(learning_rate > 0 && std::isfinite(learning_rate))) {
    return BadField("learning_rate", learning_rate, "above 0 and finite");
  }
  if (!(beta1 >= 0 && beta1 < 1)) return BadField("beta1", beta1, "in [0, 1)");
  if (!(beta2 >= 0 && beta2 < 1)) return BadField("beta2", beta2, "in [0, 1)");
  // The bound keeps epsilon from vanishing in float, where zero padding would
  // become 0 / 0.
  if (!(epsilon >= 1e-30 && std::isfinite(epsilon)))
    return BadField("epsilon", epsilon, "at least 1e-30 and finite");
  if (!(momentum >= 0 && momentum < 1))
    return BadField("momentum", momentum, "in [0, 1)");
  if (nesterov && momentum == 0) {
    return absl::InvalidArgumentError(
        "optimizer.nesterov is true, but needs a momentum above 0");
  }
  if (!(weight_decay >= 0 && std::isfinite(weight_decay))) {
    return BadField("weight_decay", weight_decay, "at least 0 and finite");
  }
  if (!(clip_norm >= 0 && std::isfinite(clip_norm))) {
    return BadField("clip_norm", clip_norm,
                    "at least 0 (0: no clipping) and finite");
  }
  if (!(layer_decay > 0 && layer_decay <= 1))
    return BadField("layer_decay", layer_decay, "in (0, 1]");
  return schedule.Validate();
}

}  // namespace ringmaster
