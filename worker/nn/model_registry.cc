#include "worker/nn/model_registry.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/nn/cpu_model.h"
#include "worker/nn/models.h"

namespace ringmaster {
namespace {

// Far above any use; keeps buffer sizes from overflowing.
constexpr int64_t kMaxBatch = int64_t{1} << 20;

}  // namespace

template <typename T>
absl::StatusOr<std::unique_ptr<Model<T>>> CreateModel(const ModelConfig& config,
                                                      const Compute& compute,
                                                      int64_t max_batch) {
  if (max_batch < 0 || max_batch > kMaxBatch) {
    return absl::InvalidArgumentError(
        absl::StrCat("model: the largest batch is ", max_batch,
                     ", but must be in [0, ", kMaxBatch, "]"));
  }
  return CreateModelOn<CpuModel<T>>({compute, max_batch}, config);
}

template absl::StatusOr<std::unique_ptr<Model<float>>> CreateModel<float>(
    const ModelConfig&, const Compute&, int64_t);
template absl::StatusOr<std::unique_ptr<Model<double>>> CreateModel<double>(
    const ModelConfig&, const Compute&, int64_t);

}  // namespace ringmaster
