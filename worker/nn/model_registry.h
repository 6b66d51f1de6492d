// CreateModel makes a model on CPUs by the name of its kind; models.h has all
// of them.
#ifndef RINGMASTER_WORKER_NN_MODEL_REGISTRY_H_
#define RINGMASTER_WORKER_NN_MODEL_REGISTRY_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/nn/model.h"
#include "worker/nn/model_config.h"

namespace ringmaster {

// Makes the model that `config` describes, with buffers for batches of up to
// `max_batch` samples. T is float or double.
//   INVALID_ARGUMENT    a setting is out of bounds or unknown; the kind is not registered
//                       (the message lists those that are); max_batch is
//                       outside [0, 2^20]
//   RESOURCE_EXHAUSTED  no memory for the buffers
template <typename T>
[[nodiscard]] absl::StatusOr<std::unique_ptr<Model<T>>> CreateModel(
    const ModelConfig& config, const Compute& compute, int64_t max_batch);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_MODEL_REGISTRY_H_
