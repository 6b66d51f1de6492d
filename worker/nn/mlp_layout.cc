#include "worker/nn/mlp_layout.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

// Weights start uniform with the variance that keeps a signal's size: 2 /
// fan_in before a GELU, as before a ReLU (He et al., "Delving Deep into
// Rectifiers", 2015). The output layer starts smaller, for a first loss near ln
// 256.
double WeightBound(const MlpLayer& layer, bool is_output) {
  return std::sqrt((is_output ? 1.0 : 6.0) / static_cast<double>(layer.in));
}

}  // namespace

absl::StatusOr<MlpSettings> ReadMlpSettings(const ModelConfig& config) {
  // Bounds far above any use, which keep sizes from overflowing.
  SettingsReader reader(config);
  MlpSettings settings;
  settings.window = reader.Int("window", settings.window, {1, 4096});
  settings.embedding_dim =
      reader.Int("embedding_dim", settings.embedding_dim, {1, 4096});
  settings.hidden_dim =
      reader.Int("hidden_dim", settings.hidden_dim, {1, 65536});
  settings.hidden_layers =
      reader.Int("hidden_layers", settings.hidden_layers, {1, 64});
  RETURN_IF_ERROR(reader.Finish());
  return settings;
}

ModelInput MlpInput(const MlpSettings& settings) {
  return {.shape = {.tokens = settings.window}, .vocabulary = kMlpVocabulary};
}

MlpLayout LayOutMlp(const MlpSettings& config) {
  MlpLayout layout;
  const int64_t layer_count = config.hidden_layers + 1;
  int64_t in = config.window * config.embedding_dim;
  for (int64_t i = 0; i < layer_count; ++i) {
    const int64_t out =
        i + 1 == layer_count ? kMlpVocabulary : config.hidden_dim;
    // Backward runs from the last layer to the first, so tensors are numbered
    // that way.
    const int weight = static_cast<int>(2 * (layer_count - 1 - i));
    layout.layers.push_back({weight, weight + 1, in, out});
    in = out;
  }
  layout.embedding = static_cast<int>(2 * layer_count);
  layout.specs.resize(static_cast<size_t>(layout.embedding) + 1);
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    const MlpLayer& layer = layout.layers[i];
    const bool is_output = i + 1 == layout.layers.size();
    const std::string name = is_output ? "output" : absl::StrCat("hidden.", i);
    layout.specs[layer.weight] = {
        name + ".weight",
        {layer.out, layer.in},
        Initializer::Uniform(WeightBound(layer, is_output))};
    layout.specs[layer.bias] = {
        name + ".bias", {layer.out}, Initializer::Constant(0)};
  }
  layout.specs[layout.embedding] = {"embedding.weight",
                                    {kMlpVocabulary, config.embedding_dim},
                                    Initializer::Uniform(1)};
  return layout;
}

double MlpFlopsPerSample(const MlpLayout& layout) {
  double weights = 0;
  for (const MlpLayer& layer : layout.layers)
    weights += static_cast<double>(layer.in * layer.out);
  // Forward, and the gradients of input and weights: two operations each.
  return 6 * weights;
}

}  // namespace ringmaster
