// The parts of a GPT: its settings, its parameter tensors by name, in Hugging
// Face's layout, and the shapes of its operators, on any device.
//
// Thread-safety: values.
#ifndef RINGMASTER_WORKER_NN_GPT_LAYOUT_H_
#define RINGMASTER_WORKER_NN_GPT_LAYOUT_H_

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
#include "worker/nn/token_embedding.h"

namespace ringmaster {

inline constexpr double kGptLayerNormEpsilon = 1e-5;

struct GptSettings {
  int64_t vocabulary = 256;
  int64_t window = 256;
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t width = 128;  // a multiple of heads
  double dropout = 0;
  int64_t sample_tokens = 0;  // of a sample, at most the window

  int64_t head_dim() const { return width / heads; }
  int64_t hidden() const {
    return 4 * width;
  }  // between the MLP's two products
};

// INVALID_ARGUMENT names a setting that is out of bounds or unknown.
[[nodiscard]] absl::StatusOr<GptSettings> ReadGptSettings(
    const ModelConfig& config);

// The input that the model takes.
ModelInput GptInput(const GptSettings& settings);

// The shapes of the operators in a pass of some samples.
struct GptShapes {
  const GptSettings& settings;
  int64_t samples = 0;
  int64_t tokens = 0;  // of each sample, at most the window

  int64_t rows() const { return samples * tokens; }
  RowShape Rows() const { return {rows(), settings.width}; }
  LinearShape Linear(int64_t in, int64_t out) const {
    return {rows(), in, out, WeightLayout::kInOut};
  }
  AttentionShape Attention() const {
    return {samples, tokens, settings.heads, settings.head_dim()};
  }
  TokenEmbeddingShape Embedding() const {
    return {samples, tokens, settings.vocabulary, settings.width};
  }
  EmbeddingShape Tokens() const {
    return {rows(), settings.vocabulary, settings.width};
  }
  HeadShape Head() const {
    return {rows(), settings.width, settings.vocabulary};
  }
  // Elements of a sample, for dropout.
  int64_t residual_elems() const { return tokens * settings.width; }
  int64_t attention_elems() const { return settings.heads * tokens * tokens; }
};

// Tensor indices of a linear operator, or of a layer norm.
struct WeightAndBias {
  int weight = 0;
  int bias = 0;
};

// Tensor indices of a block, in order of execution.
struct GptBlockTensors {
  WeightAndBias attention_norm;
  WeightAndBias attention_input;
  WeightAndBias attention_output;
  WeightAndBias mlp_norm;
  WeightAndBias mlp_input;
  WeightAndBias mlp_output;
};

struct GptTensors {
  // In the order in which backward finishes them: the final norm, the blocks
  // from the last to the first, positions, tokens.
  std::vector<TensorSpec> specs;
  // Indices into specs.
  WeightAndBias final_norm;
  std::vector<GptBlockTensors> blocks;  // in order of execution
  int positions = 0;
  int tokens = 0;  // of the embedding and, transposed, of the head
};

// Initial values are GPT-2's: N(0, 0.02), and projections into the residual
// stream smaller by sqrt(2 * layers) (Radford et al., "Language Models are
// Unsupervised Multitask Learners", 2019, section 2.3).
GptTensors LayOutGpt(const GptSettings& settings);

// Parameters that are a factor of matrix products: the linear operators' and
// the head's, without biases, norms and positions.
double GptProductParameters(const GptSettings& settings);

// See Model::flops_per_sample.
double GptFlopsPerSample(const GptSettings& settings);

// The places of dropout in the model; each has its own key.
struct GptDropoutSite {
  static constexpr uint64_t kEmbedding = 0;
  static constexpr uint64_t Attention(size_t block) { return 3 * block + 1; }
  static constexpr uint64_t AttentionOutput(size_t block) {
    return 3 * block + 2;
  }
  static constexpr uint64_t MlpOutput(size_t block) { return 3 * block + 3; }
};

// The config.json of GPT2LMHeadModel.
std::string GptHuggingFaceConfig(const GptSettings& settings);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_GPT_LAYOUT_H_
