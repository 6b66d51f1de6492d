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
#include "worker/nn/classifier.h"
#include "worker/nn/embedding.h"
#include "worker/nn/gelu.h"
#include "worker/nn/linear.h"

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
    T* output;  // [B,out]: before the GELU; of the last layer: the scratch of
                // the classifier
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
  // Computes the input of the last layer for `size` windows of token ids.
  void Forward(const int32_t* inputs, int64_t size);
  // Of the last layer.
  HeadShape HeadShapeOf(int64_t size) const {
    return {size, layout_.layers.back().in, kVocabulary};
  }
  // From the gradient of the last layer's input.
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
  const auto aligned_elems = [](int64_t elems) {
    return (elems + kTensorAlignElems - 1) / kTensorAlignElems *
           kTensorAlignElems;
  };
  const auto aligned = [&](int64_t width) {
    return aligned_elems(max_batch_ * width);
  };
  const int64_t logits =
      aligned_elems(ClassifierChunkRows(HeadShapeOf(max_batch_)) * kVocabulary);
  int64_t widest_input = 0;
  int64_t total = 0;
  for (const Layer& layer : layout_.layers) {
    const bool is_last = &layer == &layout_.layers.back();
    total += aligned(layer.in) + (is_last ? logits : aligned(layer.out));
    widest_input = std::max(widest_input, layer.in);
  }
  total += aligned(config_.hidden_dim) + aligned(widest_input);
  ASSIGN_OR_RETURN(Arena arena, Arena::Create(ArenaRole::kBuffers, DTypeOf<T>(),
                                              total, allocator_));
  arena_.push_back(std::move(arena));
  T* next = arena_[0].template Elems<T>().data();
  const auto take = [&](int64_t elems) {
    return std::exchange(next, next + elems);
  };
  for (const Layer& layer : layout_.layers) {
    const bool is_last = &layer == &layout_.layers.back();
    T* const input = take(aligned(layer.in));
    buffers_.push_back({input, take(is_last ? logits : aligned(layer.out))});
  }
  output_gradient_ = take(aligned(config_.hidden_dim));
  input_gradient_ = take(aligned(widest_input));
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
  for (size_t i = 0; i + 1 < layout_.layers.size(); ++i) {
    const Layer& layer = layout_.layers[i];
    LinearForward<T>(compute_, {size, layer.in, layer.out}, buffers_[i].input,
                     parameters_[layer.weight], parameters_[layer.bias],
                     buffers_[i].output);
    GeluForward<T>(compute_, size * layer.out, buffers_[i].output,
                   buffers_[i + 1].input);
  }
}

template <typename T>
double Mlp<T>::ForwardBackward(const Batch& batch, const TrainOptions& options,
                               GradientObserver& observer) {
  CheckBatch(batch);
  Forward(batch.inputs().data(), batch.size());
  const Layer& head = layout_.layers.back();
  const double loss_sum = ClassifierTrain<T>(
      compute_, HeadShapeOf(batch.size()), options.scale, options.write,
      buffers_.back().input, parameters_[head.weight], parameters_[head.bias],
      batch.targets().data(), buffers_.back().output, input_gradient_,
      gradients_[head.weight], gradients_[head.bias]);
  observer.OnForwardDone();
  observer.OnTensorDone(head.weight);
  observer.OnTensorDone(head.bias);
  Backward(batch, options.write, observer);
  return loss_sum;
}

template <typename T>
void Mlp<T>::Backward(const Batch& batch, Write write,
                      GradientObserver& observer) {
  const int64_t size = batch.size();
  for (size_t i = layout_.layers.size() - 1; i-- > 0;) {
    const Layer& layer = layout_.layers[i];
    const LinearShape shape = {size, layer.in, layer.out};
    GeluBackward<T>(compute_, size * layer.out, buffers_[i].output,
                    input_gradient_, output_gradient_);
    // Parameters first: their reduction can then run while the gradient goes on
    // to the layer below.
    LinearBackwardWeight<T>(compute_, shape, write, output_gradient_,
                            buffers_[i].input, gradients_[layer.weight]);
    observer.OnTensorDone(layer.weight);
    LinearBackwardBias<T>(compute_, shape, write, output_gradient_,
                          gradients_[layer.bias]);
    observer.OnTensorDone(layer.bias);
    LinearBackwardInput<T>(compute_, shape, output_gradient_,
                           parameters_[layer.weight], input_gradient_);
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
  const Layer& head = layout_.layers.back();
  const ClassifierResult result = ClassifierPredict<T>(
      compute_, HeadShapeOf(batch.size()), buffers_.back().input,
      parameters_[head.weight], parameters_[head.bias], batch.targets().data(),
      buffers_.back().output);
  return {result.loss_sum, result.correct};
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
  const Layer& head = layout_.layers.back();
  LinearForward<T>(compute_, {1, head.in, head.out}, buffers_.back().input,
                   parameters_[head.weight], parameters_[head.bias],
                   buffers_.back().output);
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
