// The model `mlp`: predicts the byte that follows a window of bytes.
//
//   window of token ids [B,W] -> embedding (256 x E) -> concatenation [B,W*E]
//     -> hidden_layers times: linear to [B,H], GELU -> linear to logits [B,256]
//     -> cross entropy
// Settings: window (16), embedding_dim (32), hidden_dim (256), hidden_layers (2).
#ifndef RINGMASTER_WORKER_NN_MLP_MODEL_H_
#define RINGMASTER_WORKER_NN_MLP_MODEL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/plan/plan.h"
#include "worker/nn/backend.h"
#include "worker/nn/buffer_cutter.h"
#include "worker/nn/classifier.h"
#include "worker/nn/context_window.h"
#include "worker/nn/embedding.h"
#include "worker/nn/gelu.h"
#include "worker/nn/linear.h"
#include "worker/nn/mlp_layout.h"
#include "worker/nn/model.h"

namespace ringmaster {

template <typename Backend>
class Mlp final : public Backend {
 public:
  Mlp(const typename Backend::Parts& parts, const MlpSettings& settings)
      : Backend(parts),
        settings_(settings),
        input_(MlpInput(settings)),
        layout_(LayOutMlp(settings)) {}

  static absl::StatusOr<MlpSettings> ReadSettings(const ModelConfig& config) {
    return ReadMlpSettings(config);
  }

  absl::Span<const TensorSpec> specs() const override { return layout_.specs; }
  const ModelInput& input() const override { return input_; }
  double flops_per_sample() const override {
    return MlpFlopsPerSample(layout_);
  }
  absl::StatusOr<absl::Span<const typename Backend::Parameter>> NextTokenLogits(
      absl::Span<const int32_t> context) override;

 protected:
  using PlacedBatch = typename Backend::PlacedBatch;

  void Cut(BufferCutter& cutter) override;
  const char* kind() const override { return "mlp"; }
  void Train(const PlacedBatch& batch, const PassOptions& options,
             GradientObserver& observer, PassSums* sums) override;
  void Evaluate(const PlacedBatch& batch, PassSums* sums) override;

 private:
  using T = typename Backend::Element;
  using Backend::compute;
  using Backend::gradient;
  using Backend::max_batch;
  using Backend::parameter;

  // The buffers of a layer; the last one has only the input.
  struct LayerBuffers {
    // [B,in]: the embeddings, or the layer before it after its GELU.
    T* input = nullptr;
    T* output = nullptr;  // [B,out]: before the GELU
  };

  // Computes the input of the last layer for `size` windows of token ids.
  void Forward(const int32_t* inputs, int64_t size);
  // Starts from the gradient of the last layer's input.
  void Backward(const PlacedBatch& batch, Write write,
                GradientObserver& observer);

  const MlpSettings settings_;
  const ModelInput input_;
  const MlpLayout layout_;

  std::vector<LayerBuffers> buffers_;  // as layout_.layers
  // [B,H]: of a hidden layer's output, before the GELU.
  T* output_gradient_ = nullptr;
  T* input_gradient_ = nullptr;  // [B, widest input of a layer]
  int32_t* embedding_scratch_ = nullptr;
  typename Backend::ClassifierScratch head_;
};

template <typename Backend>
void Mlp<Backend>::Cut(BufferCutter& cutter) {
  int64_t widest_input = 0;
  buffers_.clear();
  for (const MlpLayer& layer : layout_.layers) {
    const bool is_last = &layer == &layout_.layers.back();
    LayerBuffers& buffers = buffers_.emplace_back();
    buffers.input = cutter.Take<T>(max_batch() * layer.in);
    if (!is_last) buffers.output = cutter.Take<T>(max_batch() * layer.out);
    widest_input = std::max(widest_input, layer.in);
  }
  output_gradient_ = cutter.Take<T>(max_batch() * settings_.hidden_dim);
  input_gradient_ = cutter.Take<T>(max_batch() * widest_input);
  embedding_scratch_ = cutter.Take<int32_t>(
      EmbeddingScratchElems(compute(), settings_.Embedding(max_batch()).count));
  head_ =
      TakeClassifierScratch<T>(compute(), layout_.Head(max_batch()), cutter);
}

template <typename Backend>
void Mlp<Backend>::Forward(const int32_t* inputs, int64_t size) {
  EmbeddingForward<T>(compute(), settings_.Embedding(size), inputs,
                      parameter(layout_.embedding), buffers_[0].input);
  for (size_t i = 0; i + 1 < layout_.layers.size(); ++i) {
    const MlpLayer& layer = layout_.layers[i];
    LinearGeluForward<T>(compute(), layer.Shape(size), buffers_[i].input,
                         parameter(layer.weight), parameter(layer.bias),
                         buffers_[i].output, buffers_[i + 1].input);
  }
}

template <typename Backend>
void Mlp<Backend>::Train(const PlacedBatch& batch, const PassOptions& options,
                         GradientObserver& observer, PassSums* sums) {
  Forward(batch.inputs, batch.size);
  const MlpLayer& head = layout_.layers.back();
  ClassifierTrain<T>(
      compute(), layout_.Head(batch.size), batch.scale, options.write,
      buffers_.back().input, parameter(head.weight), parameter(head.bias),
      batch.targets, head_, input_gradient_, gradient(head.weight),
      gradient(head.bias), &sums->loss_sum);
  observer.OnForwardDone();
  observer.OnTensorDone(head.weight);
  observer.OnTensorDone(head.bias);
  Backward(batch, options.write, observer);
}

template <typename Backend>
void Mlp<Backend>::Backward(const PlacedBatch& batch, Write write,
                            GradientObserver& observer) {
  for (size_t i = layout_.layers.size() - 1; i-- > 0;) {
    const MlpLayer& layer = layout_.layers[i];
    const LinearShape shape = layer.Shape(batch.size);
    GeluBackward<T>(compute(), batch.size * layer.out, buffers_[i].output,
                    input_gradient_, output_gradient_);
    // Parameters first: their reduction can then run while the gradient goes on
    // to the layer below.
    LinearBackwardParameters<T>(compute(), shape, write, output_gradient_,
                                buffers_[i].input, gradient(layer.weight),
                                gradient(layer.bias));
    observer.OnTensorDone(layer.weight);
    observer.OnTensorDone(layer.bias);
    LinearBackwardInput<T>(compute(), shape, output_gradient_,
                           parameter(layer.weight), input_gradient_);
  }
  EmbeddingBackward<T>(compute(), settings_.Embedding(batch.size), write,
                       batch.inputs, input_gradient_, embedding_scratch_,
                       gradient(layout_.embedding));
  observer.OnTensorDone(layout_.embedding);
}

template <typename Backend>
void Mlp<Backend>::Evaluate(const PlacedBatch& batch, PassSums* sums) {
  Forward(batch.inputs, batch.size);
  const MlpLayer& head = layout_.layers.back();
  ClassifierPredict<T>(compute(), layout_.Head(batch.size),
                       buffers_.back().input, parameter(head.weight),
                       parameter(head.bias), batch.targets, head_,
                       &sums->predicted_loss, &sums->correct);
}

template <typename Backend>
absl::StatusOr<absl::Span<const typename Backend::Parameter>>
Mlp<Backend>::NextTokenLogits(absl::Span<const int32_t> context) {
  // The bytes before the text are zero.
  const auto placed =
      Backend::PlaceContext(context, WindowPadding::kBefore, settings_.window);
  Forward(placed.batch.inputs, 1);
  const MlpLayer& head = layout_.layers.back();
  LinearForward<T>(compute(), head.Shape(1), buffers_.back().input,
                   parameter(head.weight), parameter(head.bias), head_.logits);
  return Backend::FetchLogits(head_.logits, kMlpVocabulary);
}

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_MLP_MODEL_H_
