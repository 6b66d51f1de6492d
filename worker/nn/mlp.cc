#include "worker/nn/mlp.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/plan/plan.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "common/tensor/allocator.h"
#include "common/tensor/arena.h"
#include "worker/nn/embedding.h"
#include "worker/nn/gelu.h"
#include "worker/nn/linear.h"
#include "worker/nn/softmax_cross_entropy.h"

namespace ringmaster {
namespace {

constexpr int64_t kVocabulary = 256;

// One linear layer: where it is in the specs, and its widths.
struct Layer {
  int weight;  // tensor index
  int bias;    // tensor index
  int64_t in;
  int64_t out;
};

// Bounds far above any use, which keep sizes from overflowing.
struct MlpSettings {
  int64_t window = 16;
  int64_t embedding_dim = 32;
  int64_t hidden_dim = 256;
  int64_t hidden_layers = 2;
};

absl::StatusOr<MlpSettings> ReadSettings(const ModelConfig& config) {
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

struct MlpLayout {
  std::vector<Layer>
      layers;         // in order of execution; the last one gives the logits
  int embedding = 0;  // tensor index
  std::vector<TensorSpec> specs;
};

// Weights start uniform with the variance that keeps a signal's size: 2 /
// fan_in before a GELU, as before a ReLU (He et al., "Delving Deep into
// Rectifiers", 2015). The output layer starts smaller, for a first loss near ln
// 256.
double WeightBound(const Layer& layer, bool is_output) {
  return std::sqrt((is_output ? 1.0 : 6.0) / static_cast<double>(layer.in));
}

MlpLayout LayOut(const MlpSettings& config) {
  MlpLayout layout;
  const int64_t layer_count = config.hidden_layers + 1;
  int64_t in = config.window * config.embedding_dim;
  for (int64_t i = 0; i < layer_count; ++i) {
    const int64_t out = i + 1 == layer_count ? kVocabulary : config.hidden_dim;
    // Backward runs from the last layer to the first, so tensors are numbered
    // that way.
    const int weight = static_cast<int>(2 * (layer_count - 1 - i));
    layout.layers.push_back({weight, weight + 1, in, out});
    in = out;
  }
  layout.embedding = static_cast<int>(2 * layer_count);
  layout.specs.resize(static_cast<size_t>(layout.embedding) + 1);
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    const Layer& layer = layout.layers[i];
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
                                    {kVocabulary, config.embedding_dim},
                                    Initializer::Uniform(1)};
  return layout;
}

template <typename T>
class Mlp final : public Model<T> {
 public:
  // Where a layer's values lie in the buffer arena; each has room for max_batch
  // rows.
  struct LayerBuffers {
    T* input;   // [B,in]: the embeddings, or the layer before it after its GELU
    T* output;  // [B,out]: before the GELU; of the last layer: logits, then
                // probabilities, then their gradients
  };

  static absl::StatusOr<std::unique_ptr<Model<T>>> Create(
      const ModelConfig& config, const Compute& compute, int64_t max_batch) {
    ASSIGN_OR_RETURN(const MlpSettings settings, ReadSettings(config));
    auto model = std::make_unique<Mlp>(settings, compute, max_batch);
    RETURN_IF_ERROR(model->PlanBuffers());
    return model;
  }

  Mlp(const MlpSettings& config, const Compute& compute, int64_t max_batch)
      : config_(config),
        compute_(compute),
        max_batch_(max_batch),
        input_{.shape = {.tokens = config.window}, .vocabulary = kVocabulary},
        layout_(LayOut(config)) {}

  absl::Span<const TensorSpec> specs() const override { return layout_.specs; }
  const ModelInput& input() const override { return input_; }
  int64_t max_batch() const override { return max_batch_; }
  int64_t buffer_bytes() const override { return arena_[0].size_bytes(); }
  double flops_per_sample() const override;
  absl::Status Bind(const Plan& plan, absl::Span<const T> parameters,
                    absl::Span<T> gradients) override;
  double ForwardBackward(const Batch& batch, const TrainOptions& options,
                         GradientObserver& observer) override;
  Prediction Predict(const Batch& batch) override;
  absl::StatusOr<absl::Span<const T>> NextTokenLogits(
      absl::Span<const int32_t> context) override;

 private:
  absl::Status PlanBuffers();
  void CheckBatch(const Batch& batch) const;
  // Computes the logits of `size` windows of token ids.
  void Forward(const int32_t* inputs, int64_t size);
  void Backward(const Batch& batch, Write write, GradientObserver& observer);
  EmbeddingShape EmbeddingShapeOf(int64_t size) const {
    return {size * config_.window, kVocabulary, config_.embedding_dim};
  }

  const MlpSettings config_;
  const Compute compute_;
  const int64_t max_batch_;
  const ModelInput input_;
  const MlpLayout layout_;

  HeapAllocator
      allocator_;  // before the arena, which gives its memory back to it
  std::vector<Arena> arena_;  // one, once planned
  std::vector<LayerBuffers> buffers_;
  T* output_gradient_ =
      nullptr;  // [B,H]: of a hidden layer's output, before the GELU
  T* input_gradient_ = nullptr;  // [B, widest input of a layer]

  // By tensor index; empty until Bind.
  std::vector<const T*> parameters_;
  std::vector<T*> gradients_;
};

template <typename T>
absl::Status Mlp<T>::PlanBuffers() {
  const auto aligned = [this](int64_t width) {
    return (max_batch_ * width + kTensorAlignElems - 1) / kTensorAlignElems *
           kTensorAlignElems;
  };
  int64_t widest_input = 0;
  int64_t total = 0;
  for (const Layer& layer : layout_.layers) {
    total += aligned(layer.in) + aligned(layer.out);
    widest_input = std::max(widest_input, layer.in);
  }
  total += aligned(config_.hidden_dim) + aligned(widest_input);
  ASSIGN_OR_RETURN(Arena arena, Arena::Create(ArenaRole::kBuffers, DTypeOf<T>(),
                                              total, allocator_));
  arena_.push_back(std::move(arena));
  T* next = arena_[0].template Elems<T>().data();
  const auto take = [&](int64_t width) {
    return std::exchange(next, next + aligned(width));
  };
  for (const Layer& layer : layout_.layers) {
    T* const input = take(layer.in);
    buffers_.push_back({input, take(layer.out)});
  }
  output_gradient_ = take(config_.hidden_dim);
  input_gradient_ = take(widest_input);
  return absl::OkStatus();
}

template <typename T>
absl::Status Mlp<T>::Bind(const Plan& plan, absl::Span<const T> parameters,
                          absl::Span<T> gradients) {
  RETURN_IF_ERROR(CheckBinding(layout_.specs, plan, parameters.size(),
                               gradients.size(), "mlp"));
  parameters_.clear();
  gradients_.clear();
  for (const PlannedTensor& tensor : plan.tensors()) {
    parameters_.push_back(parameters.data() + tensor.range.begin);
    gradients_.push_back(gradients.data() + tensor.range.begin);
  }
  return absl::OkStatus();
}

template <typename T>
void Mlp<T>::CheckBatch(const Batch& batch) const {
  RM_CHECK(!parameters_.empty(), "mlp: Bind was not called");
  RM_CHECK(batch.size() <= max_batch_ && batch.shape() == input_.shape,
           "mlp: the batch does not fit");
}

template <typename T>
double Mlp<T>::flops_per_sample() const {
  double weights = 0;
  for (const Layer& layer : layout_.layers)
    weights += static_cast<double>(layer.in * layer.out);
  // Forward, and the gradients of input and weights: two operations each.
  return 6 * weights;
}

template <typename T>
void Mlp<T>::Forward(const int32_t* inputs, int64_t size) {
  EmbeddingForward<T>(compute_, EmbeddingShapeOf(size), inputs,
                      parameters_[layout_.embedding], buffers_[0].input);
  for (size_t i = 0; i < layout_.layers.size(); ++i) {
    const Layer& layer = layout_.layers[i];
    LinearForward<T>(compute_, {size, layer.in, layer.out}, buffers_[i].input,
                     parameters_[layer.weight], parameters_[layer.bias],
                     buffers_[i].output);
    const bool is_hidden = i + 1 < layout_.layers.size();
    if (is_hidden)
      GeluForward<T>(compute_, size * layer.out, buffers_[i].output,
                     buffers_[i + 1].input);
  }
}

template <typename T>
double Mlp<T>::ForwardBackward(const Batch& batch, const TrainOptions& options,
                               GradientObserver& observer) {
  CheckBatch(batch);
  Forward(batch.inputs().data(), batch.size());
  const ClassifierShape shape = {batch.size(), kVocabulary};
  T* const logits = buffers_.back().output;
  const double loss_sum =
      SoftmaxCrossEntropyForward<T>(shape, batch.targets().data(), logits);
  observer.OnForwardDone();
  SoftmaxCrossEntropyBackward<T>(shape, batch.targets().data(), options.scale,
                                 logits);
  Backward(batch, options.write, observer);
  return loss_sum;
}

template <typename T>
void Mlp<T>::Backward(const Batch& batch, Write write,
                      GradientObserver& observer) {
  const int64_t size = batch.size();
  const T* dy = buffers_.back().output;
  for (size_t i = layout_.layers.size(); i-- > 0;) {
    const Layer& layer = layout_.layers[i];
    const LinearShape shape = {size, layer.in, layer.out};
    // Parameters first: their reduction can then run while the gradient goes on
    // to the layer below.
    LinearBackwardWeight<T>(compute_, shape, write, dy, buffers_[i].input,
                            gradients_[layer.weight]);
    observer.OnTensorDone(layer.weight);
    LinearBackwardBias<T>(compute_, shape, write, dy, gradients_[layer.bias]);
    observer.OnTensorDone(layer.bias);
    LinearBackwardInput<T>(compute_, shape, dy, parameters_[layer.weight],
                           input_gradient_);
    if (i == 0) break;
    GeluBackward<T>(compute_, size * layer.in, buffers_[i - 1].output,
                    input_gradient_, output_gradient_);
    dy = output_gradient_;
  }
  EmbeddingBackward<T>(compute_, EmbeddingShapeOf(size), write,
                       batch.inputs().data(), input_gradient_,
                       gradients_[layout_.embedding]);
  observer.OnTensorDone(layout_.embedding);
}

template <typename T>
Prediction Mlp<T>::Predict(const Batch& batch) {
  CheckBatch(batch);
  Forward(batch.inputs().data(), batch.size());
  const T* const logits = buffers_.back().output;
  Prediction prediction;
  for (int64_t i = 0; i < batch.size(); ++i) {
    const T* const row = logits + i * kVocabulary;
    prediction.correct +=
        std::max_element(row, row + kVocabulary) - row == batch.targets()[i];
  }
  prediction.loss_sum = SoftmaxCrossEntropyForward<T>(
      {batch.size(), kVocabulary}, batch.targets().data(),
      buffers_.back().output);
  return prediction;
}

template <typename T>
absl::StatusOr<absl::Span<const T>> Mlp<T>::NextTokenLogits(
    absl::Span<const int32_t> context) {
  RM_CHECK(!context.empty() && max_batch_ >= 1 && !parameters_.empty(),
           "mlp: no context, no buffers or no parameters");
  // What is before the text is zero bytes.
  std::vector<int32_t> window(static_cast<size_t>(config_.window), 0);
  const size_t count = std::min(context.size(), window.size());
  std::copy(context.end() - static_cast<ptrdiff_t>(count), context.end(),
            window.end() - static_cast<ptrdiff_t>(count));
  Forward(window.data(), 1);
  return absl::Span<const T>(buffers_.back().output, kVocabulary);
}

}  // namespace

template <typename T>
absl::StatusOr<std::unique_ptr<Model<T>>> CreateMlp(const ModelConfig& config,
                                                    const Compute& compute,
                                                    int64_t max_batch) {
  return Mlp<T>::Create(config, compute, max_batch);
}

template absl::StatusOr<std::unique_ptr<Model<float>>> CreateMlp<float>(
    const ModelConfig&, const Compute&, int64_t);
template absl::StatusOr<std::unique_ptr<Model<double>>> CreateMlp<double>(
    const ModelConfig&, const Compute&, int64_t);

}  // namespace ringmaster
