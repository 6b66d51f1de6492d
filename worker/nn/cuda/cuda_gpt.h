// A GPT on a GPU: the model of worker/nn/gpt.h, with the same parameters,
// dropout and results except for rounding.
#ifndef RINGMASTER_WORKER_NN_CUDA_CUDA_GPT_H_
#define RINGMASTER_WORKER_NN_CUDA_CUDA_GPT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/nn/compute.h"
#include "worker/nn/cuda/cuda_model.h"
#include "worker/nn/model.h"
#include "worker/nn/model_config.h"

namespace ringmaster::cuda {

// Errors as CreateCudaModel of cuda_model_registry.h. NextTokenLogits sees
// as many tokens as a sample has.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Model<float>>> CreateCudaGpt(
    const CudaModelParts& parts, Precision precision,
    const ModelConfig& config);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_CUDA_GPT_H_
