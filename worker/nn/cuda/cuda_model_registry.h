// CreateCudaModel makes a model that computes on a GPU by the name of its kind.
#ifndef RINGMASTER_WORKER_NN_CUDA_CUDA_MODEL_REGISTRY_H_
#define RINGMASTER_WORKER_NN_CUDA_CUDA_MODEL_REGISTRY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/nn/compute.h"
#include "worker/nn/cuda/cuda_model.h"
#include "worker/nn/model.h"
#include "worker/nn/model_config.h"

namespace ringmaster::cuda {

// As CreateModel of worker/nn/model_registry.h. Activations and the operands of
// matrix products are of `precision`; parameters and gradients are float.
//   INVALID_ARGUMENT    as there
//   RESOURCE_EXHAUSTED  the device has no memory for the buffers
[[nodiscard]] absl::StatusOr<std::unique_ptr<Model<float>>> CreateCudaModel(
    const CudaModelParts& parts, Precision precision,
    const ModelConfig& config);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_CUDA_MODEL_REGISTRY_H_
