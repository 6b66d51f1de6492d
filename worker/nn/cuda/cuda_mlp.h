// The multilayer perceptron of worker/nn/mlp.h on a GPU: the same parameters, and the same
// results but for rounding.
#ifndef RINGMASTER_WORKER_NN_CUDA_CUDA_MLP_H_
#define RINGMASTER_WORKER_NN_CUDA_CUDA_MLP_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/nn/cuda/cuda_compute.h"
#include "worker/nn/model.h"
#include "worker/nn/model_config.h"

namespace ringmaster::cuda {

// Errors as CreateModel of worker/nn/model_registry.h. T is float, __nv_bfloat16 or __half.
template <typename T>
[[nodiscard]] absl::StatusOr<std::unique_ptr<Model<float>>> CreateCudaMlp(
    CudaDevice& device, const CudaCompute& compute, const ModelConfig& config,
    int64_t max_batch);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_CUDA_MLP_H_
