// The parts of a BERT or a RoBERTa: its settings, its parameter tensors by
// name, in Hugging Face's layout, and the shapes of its operators, on any
// device.
//
// Thread-safety: values.
#ifndef RINGMASTER_WORKER_NN_BERT_LAYOUT_H_
#define RINGMASTER_WORKER_NN_BERT_LAYOUT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "worker/nn/attention.h"
#include "worker/nn/classifier.h"
#include "worker/nn/embedding.h"
#include "worker/nn/gather.h"
#include "worker/nn/layer_norm.h"
#include "worker/nn/linear.h"
#include "worker/nn/model.h"
#include "worker/nn/model_config.h"
#include "worker/nn/texts.h"
#include "worker/nn/token_embedding.h"

namespace ringmaster {

struct BertSettings {
  int64_t vocabulary = 257;
  int64_t window = 256;
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t width = 128;  // a multiple of heads
  int64_t hidden = 0;   // between the MLP's two products
  bool is_roberta = false;
  int64_t types = 0;       // of tokens: which of a sample's texts they are in
  int64_t padding = 0;     // id
  int64_t separator = -1;  // id, which ends a text; -1: there is none
  int64_t mask = 0;        // id
  double norm_epsilon = 1e-12;
  double dropout = 0;
  int64_t classes = 0;  // of a sample; 0: masked tokens are predicted
  double masked_share = 0.15;
  int64_t sample_tokens = 0;  // of a sample, at most the window

  int64_t head_dim() const { return width / heads; }
  bool is_masked() const { return classes == 0; }
  // The row of the first position in their table: RoBERTa's come after that of
  // padding.
  int64_t first_position() const { return is_roberta ? padding + 1 : 0; }
  int64_t positions() const { return window + first_position(); }
  // The tokens, or the class, that are predicted of a sample.
  int64_t targets() const;
};

// INVALID_ARGUMENT names a setting that is out of bounds or unknown.
[[nodiscard]] absl::StatusOr<BertSettings> ReadBertSettings(
    const ModelConfig& config);

// The input that the model takes.
ModelInput BertInput(const BertSettings& settings);

// The shapes of the operators in a pass of some samples.
struct BertShapes {
  const BertSettings& settings;
  int64_t samples = 0;

  int64_t tokens() const { return settings.sample_tokens; }
  int64_t rows() const { return samples * tokens(); }
  int64_t picked() const { return samples * settings.targets(); }
  RowShape Rows() const { return {rows(), settings.width}; }
  RowShape PickedRows() const { return {picked(), settings.width}; }
  LinearShape Linear(int64_t in, int64_t out) const {
    return {rows(), in, out};
  }
  LinearShape PickedLinear() const {
    return {picked(), settings.width, settings.width};
  }
  AttentionShape Attention(const int32_t* lengths) const {
    return {samples,
            tokens(),
            settings.heads,
            settings.head_dim(),
            /*is_causal=*/false,
            /*is_apart=*/true,
            lengths};
  }
  TextShape Texts() const { return {samples, tokens()}; }
  MaskingShape Masking() const {
    return {Texts(), settings.targets(), settings.vocabulary,
            static_cast<int32_t>(settings.mask)};
  }
  TokenEmbeddingShape Embedding() const {
    return {samples, tokens(), settings.vocabulary, settings.width};
  }
  EmbeddingShape Tokens() const {
    return {rows(), settings.vocabulary, settings.width};
  }
  // The types of tokens, each a row of zeros with one 1.
  LinearShape Types() const {
    return {rows(), settings.types, settings.width, WeightLayout::kInOut};
  }
  GatherShape Picked() const { return {picked(), rows(), settings.width}; }
  HeadShape Head() const {
    return {picked(), settings.width,
            settings.is_masked() ? settings.vocabulary : settings.classes};
  }
  // Elements of a sample, for dropout.
  int64_t residual_elems() const { return tokens() * settings.width; }
  int64_t attention_elems() const {
    return settings.heads * tokens() * tokens();
  }
};

// Tensor indices of a linear operator, or of a layer norm.
struct BertTensorPair {
  int weight = 0;
  int bias = 0;
};

// Tensor indices of a block, in order of execution.
struct BertBlockTensors {
  std::array<BertTensorPair, 3> attention_input;  // query, key, value
  BertTensorPair attention_output;
  BertTensorPair attention_norm;
  BertTensorPair mlp_input;
  BertTensorPair mlp_output;
  BertTensorPair mlp_norm;
};

struct BertTensors {
  // In the order in which backward finishes them.
  std::vector<TensorSpec> specs;
  // Indices into specs. The output of masked tokens is the transposed token
  // embedding, with a bias of its own.
  BertTensorPair output;
  BertTensorPair head_norm;  // of masked tokens
  BertTensorPair head;
  std::vector<BertBlockTensors> blocks;  // in order of execution
  BertTensorPair embedding_norm;
  int types = 0;
  int positions = 0;
  int tokens = 0;
};

// Initial values are BERT's: N(0, 0.02).
BertTensors LayOutBert(const BertSettings& settings);

// See Model::flops_per_sample.
double BertFlopsPerSample(const BertSettings& settings);

// The places of chance in the model; each has its own key.
struct BertDropoutSite {
  static constexpr uint64_t kEmbedding = 0;
  static constexpr uint64_t kHeadInput = uint64_t{1} << 32;
  static constexpr uint64_t kHeadOutput = kHeadInput + 1;
  static constexpr uint64_t kMasking = kHeadInput + 2;
  static constexpr uint64_t Attention(size_t block) { return 3 * block + 1; }
  static constexpr uint64_t AttentionOutput(size_t block) {
    return 3 * block + 2;
  }
  static constexpr uint64_t MlpOutput(size_t block) { return 3 * block + 3; }
};

// The config.json of BertForMaskedLM or BertForSequenceClassification, or of
// RoBERTa's.
std::string BertHuggingFaceConfig(const BertSettings& settings);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_BERT_LAYOUT_H_
