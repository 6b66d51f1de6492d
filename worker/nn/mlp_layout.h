// The parts of a multilayer perceptron over bytes: its settings, its layers,
// its parameter tensors by name, and the shapes of its operators, on any
// device.
//
// Thread-safety: values.
#ifndef RINGMASTER_WORKER_NN_MLP_LAYOUT_H_
#define RINGMASTER_WORKER_NN_MLP_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "worker/nn/classifier.h"
#include "worker/nn/embedding.h"
#include "worker/nn/linear.h"
#include "worker/nn/model.h"
#include "worker/nn/model_config.h"

namespace ringmaster {

inline constexpr int64_t kMlpVocabulary = 256;

struct MlpSettings {
  int64_t window = 16;
  int64_t embedding_dim = 32;
  int64_t hidden_dim = 256;
  int64_t hidden_layers = 2;

  EmbeddingShape Embedding(int64_t batch) const {
    return {batch * window, kMlpVocabulary, embedding_dim};
  }
};

// INVALID_ARGUMENT names a setting that is out of bounds or unknown.
[[nodiscard]] absl::StatusOr<MlpSettings> ReadMlpSettings(
    const ModelConfig& config);

// The input that the model takes.
ModelInput MlpInput(const MlpSettings& settings);

// One linear layer: where it is in the specs, and its widths.
struct MlpLayer {
  int weight;  // tensor index
  int bias;    // tensor index
  int64_t in;
  int64_t out;

  LinearShape Shape(int64_t batch) const { return {batch, in, out}; }
};

struct MlpLayout {
  // In order of execution; the last one gives the logits.
  std::vector<MlpLayer> layers;
  int embedding = 0;  // tensor index
  // In the order in which backward finishes them.
  std::vector<TensorSpec> specs;

  HeadShape Head(int64_t batch) const {
    return {batch, layers.back().in, kMlpVocabulary};
  }
};

MlpLayout LayOutMlp(const MlpSettings& settings);

// See Model::flops_per_sample.
double MlpFlopsPerSample(const MlpLayout& layout);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_MLP_LAYOUT_H_
