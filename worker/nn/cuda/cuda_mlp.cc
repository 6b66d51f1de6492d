#include "worker/nn/cuda/cuda_mlp.h"

#include <algorithm>
#include <vector>

#include "common/status/status_macros.h"
#include "worker/nn/cuda/activations.h"
#include "worker/nn/cuda/classifier.h"
#include "worker/nn/cuda/classifier_scratch.h"
#include "worker/nn/cuda/embedding.h"
#include "worker/nn/cuda/linear.h"
#include "worker/nn/mlp_layout.h"

namespace ringmaster::cuda {
namespace {

template <typename T>
class CudaMlp final : public CudaModel<T> {
 public:
  CudaMlp(const CudaModelParts& parts, const MlpSettings& settings)
      : CudaModel<T>(parts),
        settings_(settings),
        input_(MlpInput(settings)),
        layout_(LayOutMlp(settings)) {}

  absl::Span<const TensorSpec> specs() const override { return layout_.specs; }
  const ModelInput& input() const override { return input_; }
  double flops_per_sample() const override {
    return MlpFlopsPerSample(layout_);
  }
  absl::StatusOr<absl::Span<const float>> NextTokenLogits(
      absl::Span<const int32_t> context) override;

 protected:
  void Cut(DeviceCutter& cutter) override;
  const char* kind() const override { return "mlp"; }
  void Train(const DeviceBatch& batch, const PassOptions& options,
             GradientObserver& observer) override;
  void Evaluate(const DeviceBatch& batch) override;

 private:
  using Base = CudaModel<T>;
  using Base::compute;
  using Base::gradient;
  using Base::max_batch;
  using Base::parameter;
  using Base::stream;
  using Base::sums;

  // The buffers of a layer; the last one has only the input.
  struct LayerBuffers {
    T* input = nullptr;   // [B,in]
    T* output = nullptr;  // [B,out]: before the GELU
  };

  // Computes the input of the last layer for `size` windows of token ids.
  void Forward(const int32_t* inputs, int64_t size);
  // Starts from the gradient of the last layer's input.
  void Backward(const DeviceBatch& batch, Write write,
                GradientObserver& observer);

  const MlpSettings settings_;
  const ModelInput input_;
  const MlpLayout layout_;

  std::vector<LayerBuffers> buffers_;  // as layout_.layers
  // [B,H]: of a hidden layer's output, before the GELU.
  T* output_gradient_ = nullptr;
  T* input_gradient_ = nullptr;  // [B, widest input of a layer]
  int32_t* embedding_scratch_ = nullptr;
  ClassifierScratch<T> head_;
};

template <typename T>
void CudaMlp<T>::Cut(DeviceCutter& cutter) {
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
      EmbeddingBackwardScratchElems(settings_.Embedding(max_batch()).count));
  head_ = TakeClassifierScratch<T>(layout_.Head(max_batch()), cutter);
}

template <typename T>
void CudaMlp<T>::Forward(const int32_t* inputs, int64_t size) {
  EmbeddingForward<T>(stream(), settings_.Embedding(size), inputs,
                      parameter(layout_.embedding), buffers_[0].input);
  for (size_t i = 0; i + 1 < layout_.layers.size(); ++i) {
    const MlpLayer& layer = layout_.layers[i];
    LinearGeluForward<T>(compute(), layer.Shape(size), buffers_[i].input,
                         parameter(layer.weight), parameter(layer.bias),
                         buffers_[i].output, buffers_[i + 1].input);
  }
}

template <typename T>
void CudaMlp<T>::Train(const DeviceBatch& batch, const PassOptions& options,
                       GradientObserver& observer) {
  Forward(batch.inputs, batch.size);
  const MlpLayer& head = layout_.layers.back();
  ClassifierTrain<T>(
      compute(), layout_.Head(batch.size), batch.scale(), options.write,
      buffers_.back().input, parameter(head.weight), parameter(head.bias),
      batch.targets, head_, input_gradient_, gradient(head.weight),
      gradient(head.bias), &sums()->loss_sum);
  observer.OnForwardDone();
  observer.OnTensorDone(head.weight);
  observer.OnTensorDone(head.bias);
  Backward(batch, options.write, observer);
}

template <typename T>
void CudaMlp<T>::Backward(const DeviceBatch& batch, Write write,
                          GradientObserver& observer) {
  for (size_t i = layout_.layers.size() - 1; i-- > 0;) {
    const MlpLayer& layer = layout_.layers[i];
    const LinearShape shape = layer.Shape(batch.size);
    GeluBackward<T>(stream(), batch.size * layer.out, buffers_[i].output,
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
  EmbeddingBackward<T>(stream(), settings_.Embedding(batch.size), write,
                       batch.inputs, input_gradient_, embedding_scratch_,
                       gradient(layout_.embedding));
  observer.OnTensorDone(layout_.embedding);
}

template <typename T>
void CudaMlp<T>::Evaluate(const DeviceBatch& batch) {
  Forward(batch.inputs, batch.size);
  const MlpLayer& head = layout_.layers.back();
  ClassifierPredict<T>(compute(), layout_.Head(batch.size),
                       buffers_.back().input, parameter(head.weight),
                       parameter(head.bias), batch.targets, head_,
                       &sums()->predicted_loss, &sums()->correct);
}

template <typename T>
absl::StatusOr<absl::Span<const float>> CudaMlp<T>::NextTokenLogits(
    absl::Span<const int32_t> context) {
  // The bytes before the text are zero.
  const DeviceBatch placed =
      Base::UploadContext(context, WindowPadding::kBefore);
  Forward(placed.inputs, placed.size);
  const MlpLayer& head = layout_.layers.back();
  LinearForward<T>(compute(), head.Shape(1), buffers_.back().input,
                   parameter(head.weight), parameter(head.bias), head_.logits);
  return Base::FetchLogits(head_.logits, kMlpVocabulary);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model<float>>> CreateCudaMlp(
    const CudaModelParts& parts, Precision precision,
    const ModelConfig& config) {
  ASSIGN_OR_RETURN(const MlpSettings settings, ReadMlpSettings(config));
  return CreateCudaModelOf<CudaMlp>(parts, precision, settings);
}

}  // namespace ringmaster::cuda
