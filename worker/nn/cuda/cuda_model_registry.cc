#include "worker/nn/cuda/cuda_model_registry.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/nn/cuda/cuda_cnn.h"
#include "worker/nn/cuda/cuda_gpt.h"
#include "worker/nn/cuda/cuda_mlp.h"

namespace ringmaster::cuda {
namespace {

template <typename T>
struct Registration {
  const char* kind;
  absl::StatusOr<std::unique_ptr<Model<float>>> (*create)(
      CudaDevice& device, const CudaCompute& compute, const ModelConfig& config,
      int64_t max_batch);
};

template <typename T>
constexpr Registration<T> kModels[] = {
    {"cnn", &CreateCudaCnn<T>},
    {"gpt", &CreateCudaGpt<T>},
    {"mlp", &CreateCudaMlp<T>},
};

template <typename T>
absl::StatusOr<std::unique_ptr<Model<float>>> Create(CudaDevice& device,
                                                     const CudaCompute& compute,
                                                     const ModelConfig& config,
                                                     int64_t max_batch) {
  std::string known;
  for (const Registration<T>& registration : kModels<T>) {
    if (config.kind == registration.kind)
      return registration.create(device, compute, config, max_batch);
    absl::StrAppend(&known, known.empty() ? "" : ", ", registration.kind);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("model.kind is \"", config.kind,
                   "\"; those that compute on a GPU are ", known));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model<float>>> CreateCudaModel(
    CudaDevice& device, const CudaCompute& compute, const ModelConfig& config,
    Precision precision, int64_t max_batch) {
  switch (precision) {
    case Precision::kBFloat16:
      return Create<__nv_bfloat16>(device, compute, config, max_batch);
    case Precision::kFloat16:
      return Create<__half>(device, compute, config, max_batch);
    case Precision::kFloat32:
    case Precision::kTf32:
      break;  // `compute` knows which
  }
  return Create<float>(device, compute, config, max_batch);
}

}  // namespace ringmaster::cuda
