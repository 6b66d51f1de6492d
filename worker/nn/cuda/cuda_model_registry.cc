#include "worker/nn/cuda/cuda_model_registry.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/nn/cuda/cuda_cnn.h"
#include "worker/nn/cuda/cuda_gpt.h"
#include "worker/nn/cuda/cuda_mlp.h"

namespace ringmaster::cuda {
namespace {

struct Registration {
  const char* kind;
  absl::StatusOr<std::unique_ptr<Model<float>>> (*create)(
      const CudaModelParts& parts, Precision precision,
      const ModelConfig& config);
};

constexpr Registration kModels[] = {
    {"cnn", &CreateCudaCnn},
    {"gpt", &CreateCudaGpt},
    {"mlp", &CreateCudaMlp},
};

}  // namespace

absl::StatusOr<std::unique_ptr<Model<float>>> CreateCudaModel(
    const CudaModelParts& parts, Precision precision,
    const ModelConfig& config) {
  std::string known;
  for (const Registration& registration : kModels) {
    if (config.kind == registration.kind) {
      return registration.create(parts, precision, config);
    }
    absl::StrAppend(&known, known.empty() ? "" : ", ", registration.kind);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("model.kind is \"", config.kind,
                   "\"; those that compute on a GPU are ", known));
}

}  // namespace ringmaster::cuda
