#include "worker/nn/llama_layout.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker/nn/spec_writer.h"

namespace ringmaster {
namespace {

int AddNorm(const std::string& name, int64_t dim, SpecWriter& writer) {
  return writer.Add(name + ".weight", {dim}, Initializer::Constant(1));
}

// [out,in], as in PyTorch's Linear; an embedding is [vocabulary,width].
int AddWeight(const std::string& name, int64_t out, int64_t in,
              SpecWriter& writer, double deviation = kInitialDeviation) {
  return writer.Add(name + ".weight", {out, in},
                    Initializer::Normal(deviation));
}

LlamaBlockTensors AddBlock(const LlamaSettings& settings, int64_t index,
                           SpecWriter& writer) {
  const std::string name = absl::StrCat("model.layers.", index);
  const std::string attention = name + ".self_attn.";
  const int64_t width = settings.width;
  const double residual_deviation = ResidualDeviation(settings.layers);
  LlamaBlockTensors block;
  block.down = AddWeight(name + ".mlp.down_proj", width, settings.hidden,
                         writer, residual_deviation);
  block.up = AddWeight(name + ".mlp.up_proj", settings.hidden, width, writer);
  block.gate =
      AddWeight(name + ".mlp.gate_proj", settings.hidden, width, writer);
  block.mlp_norm = AddNorm(name + ".post_attention_layernorm", width, writer);
  block.attention_output =
      AddWeight(attention + "o_proj", width, width, writer, residual_deviation);
  block.value =
      AddWeight(attention + "v_proj", settings.kv_width(), width, writer);
  block.key =
      AddWeight(attention + "k_proj", settings.kv_width(), width, writer);
  block.query = AddWeight(attention + "q_proj", width, width, writer);
  block.attention_norm = AddNorm(name + ".input_layernorm", width, writer);
  return block;
}

absl::Status CheckHeads(const LlamaSettings& settings) {
  if (settings.width % (2 * settings.heads) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.llama.width is ", settings.width,
        ", but must be an even multiple of heads, which is ", settings.heads));
  }
  if (settings.heads % settings.kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.llama.kv_heads is ", settings.kv_heads,
                     ", but must divide heads, which is ", settings.heads));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LlamaSettings> ReadLlamaSettings(const ModelConfig& config) {
  SettingsReader reader(config);
  LlamaSettings settings;
  // Bounds far above any use, which keep sizes from overflowing; those of heads
  // and window keep the elements of a sample's attention within 2^32.
  settings.vocabulary =
      reader.Int("vocabulary", settings.vocabulary, {1, int64_t{1} << 20});
  settings.window = reader.Int("window", settings.window, {1, 4096});
  settings.layers = reader.Int("layers", settings.layers, {1, 256});
  settings.heads = reader.Int("heads", settings.heads, {1, 256});
  settings.kv_heads = reader.Int("kv_heads", settings.heads, {1, 256});
  settings.width = reader.Int("width", settings.width, {1, 16384});
  settings.hidden =
      reader.Int("hidden", (settings.width * 8 / 3 + 7) / 8 * 8, {1, 65536});
  settings.rope_theta =
      reader.Real("rope_theta", settings.rope_theta, {1, 1e9});
  settings.norm_epsilon =
      reader.Real("norm_epsilon", settings.norm_epsilon, {1e-12, 1});
  settings.is_tied = reader.Int("tied", 0, {0, 1}) == 1;
  settings.sample_tokens = reader.Int("sample_tokens", 0, {0, settings.window});
  if (settings.sample_tokens == 0) settings.sample_tokens = settings.window;
  RETURN_IF_ERROR(reader.Finish());
  RETURN_IF_ERROR(CheckHeads(settings));
  return settings;
}

ModelInput LlamaInput(const LlamaSettings& settings) {
  return {.shape = {.tokens = settings.sample_tokens,
                    .targets = settings.sample_tokens},
          .vocabulary = settings.vocabulary};
}

LlamaTensors LayOutLlama(const LlamaSettings& settings) {
  LlamaTensors tensors;
  SpecWriter writer(tensors.specs);
  const int64_t width = settings.width;
  if (!settings.is_tied)
    tensors.head = AddWeight("lm_head", settings.vocabulary, width, writer);
  tensors.final_norm = AddNorm("model.norm", width, writer);
  tensors.blocks.resize(static_cast<size_t>(settings.layers));
  for (int64_t i = settings.layers; i-- > 0;)
    tensors.blocks[i] = AddBlock(settings, i, writer);
  tensors.tokens =
      AddWeight("model.embed_tokens", settings.vocabulary, width, writer);
  if (settings.is_tied) tensors.head = tensors.tokens;
  return tensors;
}

double LlamaFlopsPerSample(const LlamaSettings& settings) {
  const double tokens = static_cast<double>(settings.sample_tokens);
  const double width = static_cast<double>(settings.width);
  const double layers = static_cast<double>(settings.layers);
  const double block = 2 * width * width +
                       2 * width * static_cast<double>(settings.kv_width()) +
                       3 * width * static_cast<double>(settings.hidden);
  const double parameters =
      layers * block + static_cast<double>(settings.vocabulary) * width;
  // Forward, and the gradients of input and weights: two operations each. Of the
  // attention's products a causal mask leaves half.
  return tokens * (6 * parameters + 6 * layers * width * tokens);
}

std::string LlamaHuggingFaceConfig(const LlamaSettings& settings) {
  // Left out, they would be LlamaConfig's 1 and 2.
  nlohmann::ordered_json end_of_text = nullptr;
  if (const int64_t token = EndOfTextOf(settings.vocabulary); token >= 0)
    end_of_text = token;
  const nlohmann::ordered_json config = {
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
      {"vocab_size", settings.vocabulary},
      {"max_position_embeddings", settings.window},
      {"hidden_size", settings.width},
      {"intermediate_size", settings.hidden},
      {"num_hidden_layers", settings.layers},
      {"num_attention_heads", settings.heads},
      {"num_key_value_heads", settings.kv_heads},
      {"hidden_act", "silu"},
      {"rms_norm_eps", settings.norm_epsilon},
      {"rope_theta", settings.rope_theta},
      {"rope_scaling", nullptr},
      {"attention_bias", false},
      {"mlp_bias", false},
      {"initializer_range", kInitialDeviation},
      {"tie_word_embeddings", settings.is_tied},
      {"bos_token_id", end_of_text},
      {"eos_token_id", end_of_text},
      {"torch_dtype", "float32"},
  };
  return config.dump(2) + "\n";
}

}  // namespace ringmaster
