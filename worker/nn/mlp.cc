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
#include "worker/nn/buffer_cutter.h"
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

struct MlpSettings {
  int64_t window = 16;
  int64_t embedding_dim = 32;
  int64_t hidden_dim = 256;
  int64_t hidden_layers = 2;
};

absl::StatusOr<MlpSettings> ReadSettings(const ModelConfig& config) {
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

struct MlpLayout {
  // In order of execution; the last one gives the logits.
  std::vector<Layer> layers;
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
  // Where a layer's values lie in the buffer arena.
  struct LayerBuffers {
    // [B,in]: the embeddings, or the layer before it after its GELU.
    T* input = nullptr;
    // [B,out]: before the GELU. Of the last layer: the classifier's scratch.
    T* output = nullptr;
  };

  static absl::StatusOr<std::unique_ptr<Model<T>>> Create(
      const ModelConfig& config, const Compute& compute, int64_t max_batch) {
    ASSIGN_OR_RETURN(const MlpSettings settings, ReadSettings(config));
    auto model = std::make_unique<Mlp>(settings, compute, max_batch);
    RETURN_IF_ERROR(model->arena_.Plan(
        [&model](BufferCutter<T>& cutter) { model->CutBuffers(cutter); }));
    return model;
  }

  Mlp(const MlpSettings& config, const Compute& compute, int64_t max_batch)
      : config_(config),
        compute_(compute),
        max_batch_(max_batch),
        input_{.shape = {.tokens = config.window}, .vocabulary = kVocabulary},
        layout_(LayOut(config)),
        next_window_(static_cast<size_t>(config.window)) {}

  absl::Span<const TensorSpec> specs() const override { return layout_.specs; }
  const ModelInput& input() const override { return input_; }
  int64_t max_batch() const override { return max_batch_; }
  int64_t buffer_bytes() const override { return arena_.size_bytes(); }
  double flops_per_sample() const override;
  absl::Status Bind(const Plan& plan, absl::Span<const T> parameters,
                    absl::Span<T> gradients) override {
    return bound_.Bind(layout_.specs, plan, parameters, gradients, "mlp");
  }
  double ForwardBackward(const Batch& batch, const TrainOptions& options,
                         GradientObserver& observer) override;
  Prediction Predict(const Batch& batch) override;
  absl::StatusOr<absl::Span<const T>> NextTokenLogits(
      absl::Span<const int32_t> context) override;

 private:
  void CutBuffers(BufferCutter<T>& cutter);
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

  BufferArena<T> arena_;
  std::vector<LayerBuffers> buffers_;
  // [B,H]: of a hidden layer's output, before the GELU.
  T* output_gradient_ = nullptr;
  T* input_gradient_ = nullptr;       // [B, widest input of a layer]
  std::vector<int32_t> next_window_;  // [W]: what NextTokenLogits looks at

  BoundTensors<T> bound_;
};

template <typename T>
void Mlp<T>::CutBuffers(BufferCutter<T>& cutter) {
  int64_t widest_input = 0;
  buffers_.clear();
  for (const Layer& layer : layout_.layers) {
    const bool is_last = &layer == &layout_.layers.back();
    LayerBuffers& buffers = buffers_.emplace_back();
    buffers.input = cutter.Take(max_batch_ * layer.in);
    buffers.output = cutter.Take(
        layer.out *
        (is_last ? ClassifierChunkRows(HeadShapeOf(max_batch_)) : max_batch_));
    widest_input = std::max(widest_input, layer.in);
  }
  output_gradient_ = cutter.Take(max_batch_ * config_.hidden_dim);
  input_gradient_ = cutter.Take(max_batch_ * widest_input);
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
                      bound_.parameter(layout_.embedding), buffers_[0].input);
  for (size_t i = 0; i + 1 < layout_.layers.size(); ++i) {
    const Layer& layer = layout_.layers[i];
    LinearForward<T>(compute_, {size, layer.in, layer.out}, buffers_[i].input,
                     bound_.parameter(layer.weight),
                     bound_.parameter(layer.bias), buffers_[i].output);
    GeluForward<T>(compute_, size * layer.out, buffers_[i].output,
                   buffers_[i + 1].input);
  }
}

template <typename T>
double Mlp<T>::ForwardBackward(const Batch& batch, const TrainOptions& options,
                               GradientObserver& observer) {
  bound_.CheckBatch(batch, input_, max_batch_);
  Forward(batch.inputs().data(), batch.size());
  const Layer& head = layout_.layers.back();
  const double loss_sum = ClassifierTrain<T>(
      compute_, HeadShapeOf(batch.size()), options.scale, options.write,
      buffers_.back().input, bound_.parameter(head.weight),
      bound_.parameter(head.bias), batch.targets().data(),
      buffers_.back().output, input_gradient_, bound_.gradient(head.weight),
      bound_.gradient(head.bias));
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
                            buffers_[i].input, bound_.gradient(layer.weight));
    observer.OnTensorDone(layer.weight);
    LinearBackwardBias<T>(compute_, shape, write, output_gradient_,
                          bound_.gradient(layer.bias));
    observer.OnTensorDone(layer.bias);
    LinearBackwardInput<T>(compute_, shape, output_gradient_,
                           bound_.parameter(layer.weight), input_gradient_);
  }
  EmbeddingBackward<T>(compute_, EmbeddingShapeOf(size), write,
                       batch.inputs().data(), input_gradient_,
                       bound_.gradient(layout_.embedding));
  observer.OnTensorDone(layout_.embedding);
}

template <typename T>
Prediction Mlp<T>::Predict(const Batch& batch) {
  bound_.CheckBatch(batch, input_, max_batch_);
  Forward(batch.inputs().data(), batch.size());
  const Layer& head = layout_.layers.back();
  const ClassifierResult result = ClassifierPredict<T>(
      compute_, HeadShapeOf(batch.size()), buffers_.back().input,
      bound_.parameter(head.weight), bound_.parameter(head.bias),
      batch.targets().data(), buffers_.back().output);
  return {result.loss_sum, result.correct};
}

template <typename T>
absl::StatusOr<absl::Span<const T>> Mlp<T>::NextTokenLogits(
    absl::Span<const int32_t> context) {
  RM_CHECK(!context.empty() && max_batch_ >= 1 && bound_.is_bound(),
           "mlp: no context, no buffers or no parameters");
  // What is before the text is zero bytes.
  const auto count =
      static_cast<ptrdiff_t>(std::min(context.size(), next_window_.size()));
  std::fill(next_window_.begin(), next_window_.end() - count, 0);
  std::copy(context.end() - count, context.end(), next_window_.end() - count);
  Forward(next_window_.data(), 1);
  const Layer& head = layout_.layers.back();
  LinearForward<T>(compute_, {1, head.in, head.out}, buffers_.back().input,
                   bound_.parameter(head.weight), bound_.parameter(head.bias),
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
