// CreateModelOn makes any model on any backend, by the name of its kind. A new
// model is one header, and one line here.
#ifndef RINGMASTER_WORKER_NN_MODELS_H_
#define RINGMASTER_WORKER_NN_MODELS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "worker/nn/bert_model.h"
#include "worker/nn/bigram_model.h"
#include "worker/nn/cnn_model.h"
#include "worker/nn/gpt_model.h"
#include "worker/nn/llama_model.h"
#include "worker/nn/mlp_model.h"
#include "worker/nn/model.h"
#include "worker/nn/model_config.h"
#include "worker/nn/resnet_model.h"

namespace ringmaster {

template <typename Backend>
using ModelOn = std::unique_ptr<Model<typename Backend::Parameter>>;

template <template <typename> class ModelText, typename Backend>
[[nodiscard]] absl::StatusOr<ModelOn<Backend>> CreateFrom(
    const typename Backend::Parts& parts, const ModelConfig& config) {
  ASSIGN_OR_RETURN(const auto settings,
                   ModelText<Backend>::ReadSettings(config));
  auto model = std::make_unique<ModelText<Backend>>(parts, settings);
  RETURN_IF_ERROR(model->PlanBuffers());
  return model;
}

// Makes the model that `config` describes.
//   INVALID_ARGUMENT    a setting is out of bounds or unknown; the kind is none
//                       of those below (the message lists them)
//   RESOURCE_EXHAUSTED  there is no memory for the buffers
template <typename Backend>
[[nodiscard]] absl::StatusOr<ModelOn<Backend>> CreateModelOn(
    const typename Backend::Parts& parts, const ModelConfig& config) {
  // A table, not registration from static initializers: those vanish when a
  // linker drops their file.
  struct Entry {
    const char* kind;
    absl::StatusOr<ModelOn<Backend>> (*create)(
        const typename Backend::Parts& parts, const ModelConfig& config);
  };
  static constexpr Entry kModels[] = {
      {"bert", &CreateFrom<Bert, Backend>},
      {"bigram", &CreateFrom<Bigram, Backend>},
      {"cnn", &CreateFrom<Cnn, Backend>},
      {"gpt", &CreateFrom<Gpt, Backend>},
      {"llama", &CreateFrom<Llama, Backend>},
      {"mlp", &CreateFrom<Mlp, Backend>},
      {"resnet", &CreateFrom<Resnet, Backend>},
  };
  std::string known;
  for (const Entry& entry : kModels) {
    if (config.kind == entry.kind) return entry.create(parts, config);
    absl::StrAppend(&known, known.empty() ? "" : ", ", entry.kind);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("model.kind is \"", config.kind, "\"; known are ", known));
}

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_MODELS_H_
