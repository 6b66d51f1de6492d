// The multilayer perceptron of worker/nn/mlp.h on a GPU: the same parameters, and the same
// results except for rounding.
#ifndef RINGMASTER_WORKER_NN_CUDA_CUDA_MLP_H_
#define RINGMASTER_WORKER_NN_CUDA_CUDA_MLP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/nn/compute.h"
#include "worker/nn/cuda/cuda_model.h"
#include "worker/nn/model.h"
#include "worker/nn/model_config.h"

namespace ringmaster::cuda {

// Errors as CreateCudaModel of cuda_model_registry.h.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Model<float>>> CreateCudaMlp(
    const CudaModelParts& parts, Precision precision,
    const ModelConfig& config);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_CUDA_MLP_H_
