#include "worker/nn/hugging_face_config.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace ringmaster {
namespace {

using nlohmann::json;

// A setting of ours and its key there.
struct Number {
  const char* setting;
  const char* key;
  // Without it the key must be there.
  bool is_optional = false;
};

// A key that may be left out, or has this value.
struct Fixed {
  const char* key;
  json value;
};

struct ModelType {
  const char* name;
  const char* kind;
  std::vector<Number> numbers;
  std::vector<Fixed> fixed;
};

const std::vector<ModelType>& ModelTypes() {
  static const auto& types = *new std::vector<ModelType>{
      {"gpt2",
       "gpt",
       {{"vocabulary", "vocab_size"},
        {"window", "n_positions"},
        {"layers", "n_layer"},
        {"heads", "n_head"},
        {"width", "n_embd"}},
       {{"activation_function", "gelu_new"}, {"layer_norm_epsilon", 1e-5}}},
      {"llama",
       "llama",
       {{"vocabulary", "vocab_size"},
        {"window", "max_position_embeddings"},
        {"layers", "num_hidden_layers"},
        {"heads", "num_attention_heads"},
        {"kv_heads", "num_key_value_heads", true},
        {"width", "hidden_size"},
        {"hidden", "intermediate_size"},
        {"rope_theta", "rope_theta", true},
        {"norm_epsilon", "rms_norm_eps"},
        {"tied", "tie_word_embeddings", true}},
       {{"hidden_act", "silu"},
        {"rope_scaling", nullptr},
        {"attention_bias", false},
        {"mlp_bias", false}}}};
  return types;
}

absl::Status Error(const std::string& what) {
  return absl::InvalidArgumentError(what);
}

absl::StatusOr<const ModelType*> TypeOf(const json& config) {
  std::string known;
  for (const ModelType& type : ModelTypes()) {
    if (config.is_object() && config.value("model_type", json()) == type.name)
      return &type;
    absl::StrAppend(&known, known.empty() ? "" : " or ", type.name);
  }
  return Error(absl::StrCat("describes no model of type ", known));
}

}  // namespace

absl::StatusOr<ModelConfig> ReadHuggingFaceConfig(const std::string& text) {
  const json config = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const absl::StatusOr<const ModelType*> type = TypeOf(config);
  if (!type.ok()) return type.status();
  ModelConfig model = {.kind = (*type)->kind};
  for (const Number& number : (*type)->numbers) {
    const auto it = config.find(number.key);
    if (it == config.end() && number.is_optional) continue;
    if (it != config.end() && it->is_number()) {
      model.settings[number.setting] = {it->get<double>()};
    } else if (it != config.end() && it->is_boolean()) {
      model.settings[number.setting] = {it->get<bool>() ? 1.0 : 0.0};
    } else {
      return Error(absl::StrCat(number.key, " must be there, and a number"));
    }
  }
  for (const Fixed& fixed : (*type)->fixed) {
    const auto it = config.find(fixed.key);
    if (it == config.end() || *it == fixed.value) continue;
    return Error(absl::StrCat(fixed.key, " is ", it->dump(), ", but the model ",
                              model.kind, " has ", fixed.value.dump()));
  }
  return model;
}

}  // namespace ringmaster
