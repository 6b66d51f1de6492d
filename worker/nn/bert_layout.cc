#include "worker/nn/bert_layout.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker/nn/spec_writer.h"

namespace ringmaster {
namespace {

BertTensorPair AddNorm(const std::string& name, int64_t dim,
                       SpecWriter& writer) {
  const int weight =
      writer.Add(name + ".weight", {dim}, Initializer::Constant(1));
  return {weight, writer.Add(name + ".bias", {dim}, Initializer::Constant(0))};
}

int AddMatrix(const std::string& name, int64_t rows, int64_t columns,
              SpecWriter& writer) {
  return writer.Add(name + ".weight", {rows, columns},
                    Initializer::Normal(kInitialDeviation));
}

// [out,in], as in PyTorch's Linear.
BertTensorPair AddLinear(const std::string& name, int64_t in, int64_t out,
                         SpecWriter& writer) {
  const int weight = AddMatrix(name, out, in, writer);
  return {weight, writer.Add(name + ".bias", {out}, Initializer::Constant(0))};
}

BertBlockTensors AddBlock(const BertSettings& settings, const std::string& name,
                          SpecWriter& writer) {
  const std::string attention = name + ".attention.";
  const int64_t width = settings.width;
  BertBlockTensors block;
  block.mlp_norm = AddNorm(name + ".output.LayerNorm", width, writer);
  block.mlp_output =
      AddLinear(name + ".output.dense", settings.hidden, width, writer);
  block.mlp_input =
      AddLinear(name + ".intermediate.dense", width, settings.hidden, writer);
  block.attention_norm = AddNorm(attention + "output.LayerNorm", width, writer);
  block.attention_output =
      AddLinear(attention + "output.dense", width, width, writer);
  const char* const kParts[] = {"query", "key", "value"};
  for (size_t part = 3; part-- > 0;) {
    block.attention_input[part] = AddLinear(
        absl::StrCat(attention, "self.", kParts[part]), width, width, writer);
  }
  return block;
}

void AddHead(const BertSettings& settings, SpecWriter& writer,
             BertTensors& tensors) {
  const int64_t width = settings.width;
  const bool is_roberta = settings.is_roberta;
  if (!settings.is_masked()) {
    tensors.output =
        AddLinear(is_roberta ? "classifier.out_proj" : "classifier", width,
                  settings.classes, writer);
    tensors.head =
        AddLinear(is_roberta ? "classifier.dense" : "bert.pooler.dense", width,
                  width, writer);
    return;
  }
  tensors.output.bias =
      writer.Add(is_roberta ? "lm_head.bias" : "cls.predictions.bias",
                 {settings.vocabulary}, Initializer::Constant(0));
  const std::string name =
      is_roberta ? "lm_head." : "cls.predictions.transform.";
  tensors.head_norm =
      AddNorm(name + (is_roberta ? "layer_norm" : "LayerNorm"), width, writer);
  tensors.head = AddLinear(name + "dense", width, width, writer);
}

}  // namespace

int64_t BertSettings::targets() const {
  if (!is_masked()) return 1;
  const auto share = static_cast<int64_t>(
      std::llround(masked_share * static_cast<double>(sample_tokens)));
  return std::clamp<int64_t>(share, 1, sample_tokens);
}

absl::StatusOr<BertSettings> ReadBertSettings(const ModelConfig& config) {
  SettingsReader reader(config);
  BertSettings settings;
  // Bounds far above any use, which keep sizes from overflowing; those of heads
  // and window keep the elements of a sample's attention within 2^32.
  settings.vocabulary =
      reader.Int("vocabulary", settings.vocabulary, {1, int64_t{1} << 20});
  const int64_t last = settings.vocabulary - 1;
  settings.window = reader.Int("window", settings.window, {1, 4096});
  settings.layers = reader.Int("layers", settings.layers, {1, 256});
  settings.heads = reader.Int("heads", settings.heads, {1, 256});
  settings.width = reader.Int("width", settings.width, {1, 16384});
  settings.hidden = reader.Int("hidden", 0, {0, 65536});
  if (settings.hidden == 0) settings.hidden = 4 * settings.width;
  settings.is_roberta = reader.Int("roberta", 0, {0, 1}) == 1;
  settings.types = reader.Int("type_vocabulary", 0, {0, 16});
  if (settings.types == 0) settings.types = settings.is_roberta ? 1 : 2;
  settings.padding =
      reader.Int("padding", settings.is_roberta ? 1 : 0, {0, last});
  // Id 0 never ends a text: it is the one of padding.
  settings.separator = reader.Int("separator", 0, {0, last});
  if (settings.separator == 0) settings.separator = -1;
  settings.mask = reader.Int("mask", 0, {0, last});
  if (settings.mask == 0) settings.mask = last;
  settings.norm_epsilon =
      reader.Real("norm_epsilon", settings.norm_epsilon, {1e-12, 1});
  settings.dropout = reader.Real("dropout", settings.dropout, {0, 0.99});
  settings.classes = reader.Int("classes", 0, {0, 65536});
  settings.masked_share =
      reader.Real("masked_share", settings.masked_share, {0.001, 0.99});
  settings.sample_tokens = reader.Int("sample_tokens", 0, {0, settings.window});
  if (settings.sample_tokens == 0) settings.sample_tokens = settings.window;
  RETURN_IF_ERROR(reader.Finish());
  if (settings.width % settings.heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.", config.kind, ".width is ", settings.width,
        ", but must be a multiple of heads, which is ", settings.heads));
  }
  return settings;
}

ModelInput BertInput(const BertSettings& settings) {
  return {.shape = {.tokens = settings.sample_tokens,
                    .targets = settings.targets(),
                    .is_masked = settings.is_masked()},
          .vocabulary = settings.vocabulary,
          .classes = settings.classes,
          .padding = settings.padding,
          .separator = settings.separator};
}

BertTensors LayOutBert(const BertSettings& settings) {
  BertTensors tensors;
  SpecWriter writer(tensors.specs);
  const std::string name = settings.is_roberta ? "roberta." : "bert.";
  const std::string embeddings = name + "embeddings.";
  AddHead(settings, writer, tensors);
  tensors.blocks.resize(static_cast<size_t>(settings.layers));
  for (int64_t i = settings.layers; i-- > 0;) {
    tensors.blocks[i] =
        AddBlock(settings, absl::StrCat(name, "encoder.layer.", i), writer);
  }
  tensors.embedding_norm =
      AddNorm(embeddings + "LayerNorm", settings.width, writer);
  tensors.types = AddMatrix(embeddings + "token_type_embeddings",
                            settings.types, settings.width, writer);
  tensors.positions = AddMatrix(embeddings + "position_embeddings",
                                settings.positions(), settings.width, writer);
  tensors.tokens = AddMatrix(embeddings + "word_embeddings",
                             settings.vocabulary, settings.width, writer);
  if (settings.is_masked()) tensors.output.weight = tensors.tokens;
  return tensors;
}

double BertFlopsPerSample(const BertSettings& settings) {
  const auto tokens = static_cast<double>(settings.sample_tokens);
  const auto width = static_cast<double>(settings.width);
  const auto layers = static_cast<double>(settings.layers);
  const double block =
      4 * width * width + 2 * width * static_cast<double>(settings.hidden);
  const auto outputs = static_cast<double>(
      settings.is_masked() ? settings.vocabulary : settings.classes);
  const double head = width * width + outputs * width;
  // Forward, and the gradients of input and weights: two operations each.
  return tokens * (6 * layers * block + 12 * layers * width * tokens) +
         6 * static_cast<double>(settings.targets()) * head;
}

std::string BertHuggingFaceConfig(const BertSettings& settings) {
  const bool is_roberta = settings.is_roberta;
  nlohmann::ordered_json config = {
      {"architectures",
       {absl::StrCat(
           is_roberta ? "Roberta" : "Bert", "For",
           settings.is_masked() ? "MaskedLM" : "SequenceClassification")}},
      {"model_type", is_roberta ? "roberta" : "bert"},
      {"vocab_size", settings.vocabulary},
      {"max_position_embeddings", settings.positions()},
      {"type_vocab_size", settings.types},
      {"hidden_size", settings.width},
      {"intermediate_size", settings.hidden},
      {"num_hidden_layers", settings.layers},
      {"num_attention_heads", settings.heads},
      {"hidden_act", "gelu"},
      {"position_embedding_type", "absolute"},
      {"layer_norm_eps", settings.norm_epsilon},
      {"hidden_dropout_prob", settings.dropout},
      {"attention_probs_dropout_prob", settings.dropout},
      {"initializer_range", kInitialDeviation},
      {"pad_token_id", settings.padding},
      {"tie_word_embeddings", true},
      {"torch_dtype", "float32"},
  };
  for (int64_t i = 0; i < settings.classes; ++i) {
    const std::string label = absl::StrCat("LABEL_", i);
    config["id2label"][absl::StrCat(i)] = label;
    config["label2id"][label] = i;
  }
  return config.dump(2) + "\n";
}

}  // namespace ringmaster
