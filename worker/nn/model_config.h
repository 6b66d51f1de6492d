// ModelConfig is what a job says about its model.
#ifndef RINGMASTER_WORKER_NN_MODEL_CONFIG_H_
#define RINGMASTER_WORKER_NN_MODEL_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace ringmaster {

struct ModelConfig {
  std::string kind = "mlp";    // a registered model
  int64_t window = 16;         // tokens seen, in [1, 4096]
  int64_t embedding_dim = 32;  // in [1, 4096]
  int64_t hidden_dim = 256;    // in [1, 65536]
  int64_t hidden_layers = 2;   // in [1, 64]

  // INVALID_ARGUMENT names the first bad field as "model.<field>", with its
  // value and its bounds. Whether `kind` is registered is CreateModel's to say.
  [[nodiscard]] absl::Status Validate() const;
  // One line, equal for equal settings; for Plan's settings.
  std::string CanonicalText() const;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_MODEL_CONFIG_H_
