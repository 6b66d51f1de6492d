#include "worker/nn/mlp.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/plan/plan.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "worker/nn/buffer_cutter.h"
#include "worker/nn/classifier.h"
#include "worker/nn/context_window.h"
#include "worker/nn/embedding.h"
#include "worker/nn/gelu.h"
#include "worker/nn/linear.h"
#include "worker/nn/mlp_layout.h"

namespace ringmaster {
namespace {

template <typename T>
class Mlp final : public Model<T> {
 public:
  // A layer's values in the buffer arena.
  struct LayerBuffers {
    // [B,in]: the embeddings, or the layer before it after its GELU.
    T* input = nullptr;
    // [B,out]: before the GELU. In the last layer: the classifier's scratch.
    T* output = nullptr;
  };

  static absl::StatusOr<std::unique_ptr<Model<T>>> Create(
      const ModelConfig& config, const Compute& compute, int64_t max_batch) {
    ASSIGN_OR_RETURN(const MlpSettings settings, ReadMlpSettings(config));
    auto model = std::make_unique<Mlp>(settings, compute, max_batch);
    RETURN_IF_ERROR(model->arena_.Plan(
        [&model](BufferCutter<T>& cutter) { model->CutBuffers(cutter); }));
    return model;
  }

  Mlp(const MlpSettings& settings, const Compute& compute, int64_t max_batch)
      : settings_(settings),
        compute_(compute),
        max_batch_(max_batch),
        input_(MlpInput(settings)),
        layout_(LayOutMlp(settings)),
        next_window_(static_cast<size_t>(settings.window)) {}

  absl::Span<const TensorSpec> specs() const override { return layout_.specs; }
  const ModelInput& input() const override { return input_; }
  int64_t max_batch() const override { return max_batch_; }
  int64_t buffer_bytes() const override { return arena_.size_bytes(); }
  double flops_per_sample() const override {
    return MlpFlopsPerSample(layout_);
  }
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
  // Starts from the gradient of the last layer's input.
  void Backward(const Batch& batch, Write write, GradientObserver& observer);

  const MlpSettings settings_;
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
  for (const MlpLayer& layer : layout_.layers) {
    const bool is_last = &layer == &layout_.layers.back();
    LayerBuffers& buffers = buffers_.emplace_back();
    buffers.input = cutter.Take(max_batch_ * layer.in);
    buffers.output = cutter.Take(
        layer.out *
        (is_last ? ClassifierChunkRows(layout_.Head(max_batch_)) : max_batch_));
    widest_input = std::max(widest_input, layer.in);
  }
  output_gradient_ = cutter.Take(max_batch_ * settings_.hidden_dim);
  input_gradient_ = cutter.Take(max_batch_ * widest_input);
}

template <typename T>
void Mlp<T>::Forward(const int32_t* inputs, int64_t size) {
  EmbeddingForward<T>(compute_, settings_.Embedding(size), inputs,
                      bound_.parameter(layout_.embedding), buffers_[0].input);
  for (size_t i = 0; i + 1 < layout_.layers.size(); ++i) {
    const MlpLayer& layer = layout_.layers[i];
    LinearForward<T>(compute_, layer.Shape(size), buffers_[i].input,
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
  const MlpLayer& head = layout_.layers.back();
  const double loss_sum = ClassifierTrain<T>(
      compute_, layout_.Head(batch.size()), options.scale, options.write,
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
    const MlpLayer& layer = layout_.layers[i];
    const LinearShape shape = layer.Shape(size);
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
  EmbeddingBackward<T>(compute_, settings_.Embedding(size), write,
                       batch.inputs().data(), input_gradient_,
                       bound_.gradient(layout_.embedding));
  observer.OnTensorDone(layout_.embedding);
}

template <typename T>
Prediction Mlp<T>::Predict(const Batch& batch) {
  bound_.CheckBatch(batch, input_, max_batch_);
  Forward(batch.inputs().data(), batch.size());
  const MlpLayer& head = layout_.layers.back();
  const ClassifierResult result = ClassifierPredict<T>(
      compute_, layout_.Head(batch.size()), buffers_.back().input,
      bound_.parameter(head.weight), bound_.parameter(head.bias),
      batch.targets().data(), buffers_.back().output);
  return {result.loss_sum, result.correct};
}

template <typename T>
absl::StatusOr<absl::Span<const T>> Mlp<T>::NextTokenLogits(
    absl::Span<const int32_t> context) {
  RM_CHECK(!context.empty() && max_batch_ >= 1 && bound_.is_bound(),
           "mlp: no context, no buffers or no parameters");
  // The bytes before the text are zero.
  FillWindow(context, WindowPadding::kBefore, absl::MakeSpan(next_window_));
  Forward(next_window_.data(), 1);
  const MlpLayer& head = layout_.layers.back();
  LinearForward<T>(compute_, head.Shape(1), buffers_.back().input,
                   bound_.parameter(head.weight), bound_.parameter(head.bias),
                   buffers_.back().output);
  return absl::Span<const T>(buffers_.back().output, kMlpVocabulary);
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
