#include "worker/nn/hugging_face_config.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
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

// A key that may be left out, or has one of these values, which mean the same.
struct Fixed {
  const char* key;
  std::vector<json> values;
};

struct ModelType {
  const char* name;
  const char* kind;
  std::vector<Number> numbers;
  std::vector<Fixed> fixed;
};

// BERT's keys, which are RoBERTa's, too.
std::vector<Number> BertNumbers() {
  return {{"vocabulary", "vocab_size"},
          {"window", "max_position_embeddings"},
          {"layers", "num_hidden_layers"},
          {"heads", "num_attention_heads"},
          {"width", "hidden_size"},
          {"hidden", "intermediate_size"},
          {"type_vocabulary", "type_vocab_size"},
          {"padding", "pad_token_id", true},
          {"norm_epsilon", "layer_norm_eps"}};
}
std::vector<Fixed> BertFixed() {
  return {{"hidden_act", {"gelu"}},
          {"position_embedding_type", {"absolute"}},
          {"is_decoder", {false}},
          {"add_cross_attention", {false}}};
}

const std::vector<ModelType>& ModelTypes() {
  static const auto& types = *new std::vector<ModelType>{
      {"gpt2",
       "gpt",
       {{"vocabulary", "vocab_size"},
        {"window", "n_positions"},
        {"layers", "n_layer"},
        {"heads", "n_head"},
        {"width", "n_embd"}},
       {{"activation_function", {"gelu_new", "gelu_pytorch_tanh"}},
        {"layer_norm_epsilon", {1e-5}},
        {"scale_attn_weights", {true}},
        {"scale_attn_by_inverse_layer_idx", {false}},
        {"add_cross_attention", {false}}}},
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
       {{"hidden_act", {"silu", "swish"}},
        {"rope_scaling", {nullptr, {{"rope_type", "default"}}}},
        // Of rope_parameters, the place of both since transformers 5.
        {"rope_type", {"default"}},
        {"partial_rotary_factor", {1}},
        {"attention_bias", {false}},
        {"mlp_bias", {false}}}},
      {"bert", "bert", BertNumbers(), BertFixed()},
      {"roberta", "bert", BertNumbers(), BertFixed()}};
  return types;
}

absl::Status Error(const std::string& what) {
  return absl::InvalidArgumentError(what);
}

// What BERT's settings say otherwise than its keys do.
void CompleteBert(const json& config, ModelConfig& model) {
  if (config["model_type"] == "roberta") {
    model.settings["roberta"] = {1};
    // Positions begin after that of padding.
    const auto padding = model.settings.find("padding");
    model.settings["window"][0] -=
        1 + (padding == model.settings.end() ? 1 : padding->second[0]);
  }
  const std::string architecture =
      config.value("architectures", json()).is_array() &&
              !config["architectures"].empty() &&
              config["architectures"][0].is_string()
          ? config["architectures"][0].get<std::string>()
          : "";
  if (!absl::EndsWith(architecture, "ForSequenceClassification")) return;
  const json labels = config.value("id2label", json());
  // Two is what Hugging Face takes for granted.
  model.settings["classes"] = {
      labels.is_object() ? static_cast<double>(labels.size()) : 2.0};
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
  json config = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const absl::StatusOr<const ModelType*> type = TypeOf(config);
  if (!type.ok()) return type.status();
  if (const auto rope = config.find("rope_parameters");
      rope != config.end() && rope->is_object()) {
    const json parameters = *rope;
    config.update(parameters);
  }
  ModelConfig model = {.kind = (*type)->kind};
  for (const Number& number : (*type)->numbers) {
    const json value = config.value(number.key, json());
    if (value.is_null() && number.is_optional) continue;
    if (value.is_number()) {
      model.settings[number.setting] = {value.get<double>()};
    } else if (value.is_boolean()) {
      model.settings[number.setting] = {value.get<bool>() ? 1.0 : 0.0};
    } else {
      return Error(absl::StrCat(number.key, " must be there, and a number"));
    }
  }
  if (model.kind == "bert") CompleteBert(config, model);
  for (const Fixed& fixed : (*type)->fixed) {
    const auto it = config.find(fixed.key);
    if (it == config.end() ||
        std::find(fixed.values.begin(), fixed.values.end(), *it) !=
            fixed.values.end()) {
      continue;
    }
    return Error(absl::StrCat(fixed.key, " is ", it->dump(), ", but the model ",
                              model.kind, " has ",
                              fixed.values.front().dump()));
  }
  return model;
}

}  // namespace ringmaster
