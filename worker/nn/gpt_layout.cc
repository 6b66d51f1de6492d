#include "worker/nn/gpt_layout.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker/nn/spec_writer.h"

namespace ringmaster {
namespace {

WeightAndBias AddNorm(const std::string& name, int64_t dim,
                      SpecWriter& writer) {
  const int weight =
      writer.Add(name + ".weight", {dim}, Initializer::Constant(1));
  return {weight, writer.Add(name + ".bias", {dim}, Initializer::Constant(0))};
}

// Hugging Face's Conv1D: [in,out].
WeightAndBias AddLinear(const std::string& name, int64_t in, int64_t out,
                        double deviation, SpecWriter& writer) {
  const int weight =
      writer.Add(name + ".weight", {in, out}, Initializer::Normal(deviation));
  return {weight, writer.Add(name + ".bias", {out}, Initializer::Constant(0))};
}

GptBlockTensors AddBlock(const GptSettings& settings, int64_t index,
                         SpecWriter& writer) {
  const std::string name = absl::StrCat("transformer.h.", index);
  const int64_t width = settings.width;
  const double residual_deviation = ResidualDeviation(settings.layers);
  GptBlockTensors block;
  block.mlp_output = AddLinear(name + ".mlp.c_proj", settings.hidden(), width,
                               residual_deviation, writer);
  block.mlp_input = AddLinear(name + ".mlp.c_fc", width, settings.hidden(),
                              kInitialDeviation, writer);
  block.mlp_norm = AddNorm(name + ".ln_2", width, writer);
  block.attention_output = AddLinear(name + ".attn.c_proj", width, width,
                                     residual_deviation, writer);
  block.attention_input = AddLinear(name + ".attn.c_attn", width, 3 * width,
                                    kInitialDeviation, writer);
  block.attention_norm = AddNorm(name + ".ln_1", width, writer);
  return block;
}

}  // namespace

absl::StatusOr<GptSettings> ReadGptSettings(const ModelConfig& config) {
  SettingsReader reader(config);
  GptSettings settings;
  // Bounds far above any use, which keep sizes from overflowing; those of heads
  // and window keep the elements of a sample's attention within 2^32.
  settings.vocabulary =
      reader.Int("vocabulary", settings.vocabulary, {1, int64_t{1} << 20});
  settings.window = reader.Int("window", settings.window, {1, 4096});
  settings.layers = reader.Int("layers", settings.layers, {1, 256});
  settings.heads = reader.Int("heads", settings.heads, {1, 256});
  settings.width = reader.Int("width", settings.width, {1, 16384});
  settings.dropout = reader.Real("dropout", settings.dropout, {0, 0.99});
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

ModelInput GptInput(const GptSettings& settings) {
  return {.shape = {.tokens = settings.sample_tokens,
                    .targets = settings.sample_tokens},
          .vocabulary = settings.vocabulary};
}

GptTensors LayOutGpt(const GptSettings& settings) {
  GptTensors tensors;
  SpecWriter writer(tensors.specs);
  tensors.final_norm = AddNorm("transformer.ln_f", settings.width, writer);
  tensors.blocks.resize(static_cast<size_t>(settings.layers));
  for (int64_t i = settings.layers; i-- > 0;)
    tensors.blocks[i] = AddBlock(settings, i, writer);
  tensors.positions =
      writer.Add("transformer.wpe.weight", {settings.window, settings.width},
                 Initializer::Normal(kInitialDeviation));
  tensors.tokens = writer.Add("transformer.wte.weight",
                              {settings.vocabulary, settings.width},
                              Initializer::Normal(kInitialDeviation));
  return tensors;
}

double GptProductParameters(const GptSettings& settings) {
  const double width = static_cast<double>(settings.width);
  // 3 for queries, keys and values, 1 for the way out, 4 + 4 for the MLP.
  return static_cast<double>(settings.layers) * 12 * width * width +
         static_cast<double>(settings.vocabulary) * width;
}

double GptFlopsPerSample(const GptSettings& settings) {
  const double tokens = static_cast<double>(settings.sample_tokens);
  // Forward, and the gradients of input and weights: two operations each.
  const double products = 6 * GptProductParameters(settings);
  const double attention = 6 * static_cast<double>(settings.layers) *
                           static_cast<double>(settings.width) * tokens;
  return tokens * (products + attention);
}

std::string GptHuggingFaceConfig(const GptSettings& settings) {
  nlohmann::ordered_json end_of_text = nullptr;
  if (const int64_t token = EndOfTextOf(settings.vocabulary); token >= 0)
    end_of_text = token;
  const nlohmann::ordered_json config = {
      {"architectures", {"GPT2LMHeadModel"}},
      {"model_type", "gpt2"},
      {"vocab_size", settings.vocabulary},
      {"n_positions", settings.window},
      {"n_ctx", settings.window},
      {"n_embd", settings.width},
      {"n_layer", settings.layers},
      {"n_head", settings.heads},
      {"n_inner", settings.hidden()},
      {"activation_function", "gelu_new"},
      {"layer_norm_epsilon", kGptLayerNormEpsilon},
      {"embd_pdrop", settings.dropout},
      {"attn_pdrop", settings.dropout},
      {"resid_pdrop", settings.dropout},
      {"initializer_range", kInitialDeviation},
      {"scale_attn_weights", true},
      {"tie_word_embeddings", true},
      {"bos_token_id", end_of_text},
      {"eos_token_id", end_of_text},
      {"torch_dtype", "float32"},
  };
  return config.dump(2) + "\n";
}

}  // namespace ringmaster
