#include "worker/nn/model_registry.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/nn/bigram.h"
#include "worker/nn/cnn.h"
#include "worker/nn/gpt.h"
#include "worker/nn/mlp.h"

namespace ringmaster {
namespace {

// Far above any use; keeps buffer sizes from overflowing.
constexpr int64_t kMaxBatch = int64_t{1} << 20;

template <typename T>
struct Registration {
  const char* kind;
  absl::StatusOr<std::unique_ptr<Model<T>>> (*create)(const ModelConfig& config,
                                                      const Compute& compute,
                                                      int64_t max_batch);
};

// All models. A table, not registration from static initializers: those vanish
// when a linker drops their file.
template <typename T>
constexpr Registration<T> kModels[] = {
    {"bigram", &CreateBigram<T>},
    {"cnn", &CreateCnn<T>},
    {"gpt", &CreateGpt<T>},
    {"mlp", &CreateMlp<T>},
};

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
  std::string known;
  for (const Registration<T>& registration : kModels<T>) {
    if (config.kind == registration.kind)
      return registration.create(config, compute, max_batch);
    absl::StrAppend(&known, known.empty() ? "" : ", ", registration.kind);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("model.kind is \"", config.kind, "\"; known are ", known));
}

template absl::StatusOr<std::unique_ptr<Model<float>>> CreateModel<float>(
    const ModelConfig&, const Compute&, int64_t);
template absl::StatusOr<std::unique_ptr<Model<double>>> CreateModel<double>(
    const ModelConfig&, const Compute&, int64_t);

}  // namespace ringmaster
