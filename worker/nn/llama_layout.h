// The parts of a Llama: its settings, its parameter tensors by name, in Hugging
// Face's layout, and the shapes of its operators, on any device.
//
// Thread-safety: values.
#ifndef RINGMASTER_WORKER_NN_LLAMA_LAYOUT_H_
#define RINGMASTER_WORKER_NN_LLAMA_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "worker/nn/attention.h"
#include "worker/nn/classifier.h"
#include "worker/nn/embedding.h"
#include "worker/nn/layer_norm.h"
#include "worker/nn/linear.h"
#include "worker/nn/model.h"
#include "worker/nn/model_config.h"
#include "worker/nn/rotary.h"

namespace ringmaster {

struct LlamaSettings {
  int64_t vocabulary = 256;
  int64_t window = 256;
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t kv_heads = 4;  // a divisor of heads
  int64_t width = 128;   // an even multiple of heads
  int64_t hidden = 344;  // between the MLP's products; 8/3 of the width
  double rope_theta = 10000;
  double norm_epsilon = 1e-5;
  bool is_tied = false;       // the head is the token embedding
  int64_t sample_tokens = 0;  // of a sample, at most the window

  int64_t head_dim() const { return width / heads; }
  int64_t kv_width() const { return kv_heads * head_dim(); }
};

// INVALID_ARGUMENT names a setting that is out of bounds or unknown, or the
// preset.
[[nodiscard]] absl::StatusOr<LlamaSettings> ReadLlamaSettings(
    const ModelConfig& config);

// The input that the model takes.
ModelInput LlamaInput(const LlamaSettings& settings);

// The shapes of the operators in a pass of some samples.
struct LlamaShapes {
  const LlamaSettings& settings;
  int64_t samples = 0;
  int64_t tokens = 0;  // of each sample, at most the window

  int64_t rows() const { return samples * tokens; }
  RowShape Rows() const { return {rows(), settings.width}; }
  LinearShape Linear(int64_t in, int64_t out) const {
    return {rows(), in, out};
  }
  RotaryShape Rotary() const {
    return {samples, tokens, settings.heads, settings.kv_heads,
            settings.head_dim()};
  }
  AttentionShape Attention() const {
    return {samples, tokens, settings.heads, settings.head_dim()};
  }
  EmbeddingShape Tokens() const {
    return {rows(), settings.vocabulary, settings.width};
  }
  HeadShape Head() const {
    return {rows(), settings.width, settings.vocabulary};
  }
};

// Tensor indices of a block, in order of execution.
struct LlamaBlockTensors {
  int attention_norm = 0;
  int query = 0;
  int key = 0;
  int value = 0;
  int attention_output = 0;
  int mlp_norm = 0;
  int gate = 0;
  int up = 0;
  int down = 0;
};

struct LlamaTensors {
  // In the order in which backward finishes them: the head, the final norm, the
  // blocks from the last to the first, tokens.
  std::vector<TensorSpec> specs;
  // Indices into specs.
  int head = 0;  // that of tokens, if the two are tied
  int final_norm = 0;
  std::vector<LlamaBlockTensors> blocks;  // in order of execution
  int tokens = 0;
};

// Initial values are N(0, 0.02), and projections into the residual stream smaller
// by sqrt(2 * layers), as those of gpt.
LlamaTensors LayOutLlama(const LlamaSettings& settings);

// See Model::flops_per_sample.
double LlamaFlopsPerSample(const LlamaSettings& settings);

// The config.json of LlamaForCausalLM.
std::string LlamaHuggingFaceConfig(const LlamaSettings& settings);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_LLAMA_LAYOUT_H_
