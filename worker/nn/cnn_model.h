// The model `cnn`: tells the class of an image.
//
//   pixels [B,height,width,channels] / 255
//     -> for each of `filters`: 3x3 convolution, ReLU, 2x2 max pooling
//     -> flattened as it lies: line, column, channel
//     -> linear to [B,hidden_dim], ReLU -> linear to logits [B,classes]
//     -> cross entropy
//
// Tensors are conv.N.weight [filters,3,3,channels], hidden.weight, output.weight
// ([out,in], as in PyTorch's Linear) and a bias of each. With
// Precision::kBFloat16 convolutions on CPUs still multiply floats.
// Settings: height (28), width (28), channels (1), classes (10), filters (32,
// 64), hidden_dim (128). The image must not be too small to be halved once for
// each of `filters`.
#ifndef RINGMASTER_WORKER_NN_CNN_MODEL_H_
#define RINGMASTER_WORKER_NN_CNN_MODEL_H_

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
#include "worker/nn/cnn_layout.h"
#include "worker/nn/conv2d.h"
#include "worker/nn/linear.h"
#include "worker/nn/model.h"
#include "worker/nn/pixels.h"
#include "worker/nn/pooling.h"
#include "worker/nn/relu.h"

namespace ringmaster {

template <typename Backend>
class Cnn final : public Backend {
 public:
  Cnn(const typename Backend::Parts& parts, const CnnSettings& settings)
      : Backend(parts),
        input_(CnnInput(settings)),
        layout_(LayOutCnn(settings)) {}

  static absl::StatusOr<CnnSettings> ReadSettings(const ModelConfig& config) {
    return ReadCnnSettings(config);
  }

  absl::Span<const TensorSpec> specs() const override { return layout_.specs; }
  const ModelInput& input() const override { return input_; }
  double flops_per_sample() const override {
    return CnnFlopsPerSample(layout_);
  }

 protected:
  using PlacedBatch = typename Backend::PlacedBatch;

  void Cut(BufferCutter& cutter) override;
  const char* kind() const override { return "cnn"; }
  void Train(const PlacedBatch& batch, const PassOptions& options,
             GradientObserver& observer, PassSums* sums) override;
  void Evaluate(const PlacedBatch& batch, PassSums* sums) override;

 private:
  using T = typename Backend::Element;
  using Backend::compute;
  using Backend::gradient;
  using Backend::max_batch;
  using Backend::parameter;

  // The values that a stage's forward pass keeps for its backward pass.
  struct StageBuffers {
    T* input = nullptr;          // [B,height,width,in]
    uint8_t* winners = nullptr;  // [B,height/2,width/2,out]: of the pooling
  };

  // Computes the input of the output layer.
  void Forward(const PlacedBatch& batch);
  // Starts from the gradient of the output layer's input, in hidden_gradient_.
  void Backward(int64_t size, Write write, GradientObserver& observer);
  void BackwardStage(size_t index, int64_t size, Write write,
                     GradientObserver& observer);
  // Returns the buffer for a stage's output.
  T* StageOutput(size_t index) const {
    return index + 1 < stages_.size() ? stages_[index + 1].input : features_;
  }

  const ModelInput input_;
  const CnnLayout layout_;

  std::vector<StageBuffers> stages_;
  // [B, most of a stage]: a convolution's output before the pooling; while
  // going back, its gradient.
  T* convolved_ = nullptr;
  T* features_ = nullptr;         // [B,features]: output of the last stage
  T* hidden_ = nullptr;           // [B,hidden]
  T* hidden_gradient_ = nullptr;  // [B,hidden]
  T* pooled_gradient_ = nullptr;  // [B, most of a stage]: of a stage's output
  Conv2dScratch<T> conv_scratch_ = {};
  typename Backend::ClassifierScratch head_;
};

template <typename Backend>
void Cnn<Backend>::Cut(BufferCutter& cutter) {
  int64_t most_convolved = 0;
  int64_t most_pooled = 0;
  int64_t most_scratch = 0;
  stages_.clear();
  for (const CnnStage& stage : layout_.stages) {
    StageBuffers& buffers = stages_.emplace_back();
    buffers.input = cutter.Take<T>(max_batch() * stage.input_elems());
    buffers.winners = cutter.Take<uint8_t>(max_batch() * stage.pooled_elems());
    most_convolved = std::max(most_convolved, stage.convolved_elems());
    // Backward leaves the gradient of a stage's input where that of its output
    // was, and the input is the output of the stage before.
    most_pooled = std::max(most_pooled, stage.pooled_elems());
    most_scratch =
        std::max(most_scratch,
                 Conv2dScratchElems(compute(), stage.Convolution(max_batch())));
  }
  convolved_ = cutter.Take<T>(max_batch() * most_convolved);
  features_ = cutter.Take<T>(max_batch() * layout_.hidden.in);
  hidden_ = cutter.Take<T>(max_batch() * layout_.hidden.out);
  hidden_gradient_ = cutter.Take<T>(max_batch() * layout_.hidden.out);
  pooled_gradient_ = cutter.Take<T>(max_batch() * most_pooled);
  conv_scratch_ = {cutter.Take<T>(most_scratch), most_scratch};
  head_ =
      TakeClassifierScratch<T>(compute(), layout_.Head(max_batch()), cutter);
}

template <typename Backend>
void Cnn<Backend>::Forward(const PlacedBatch& batch) {
  const int64_t size = batch.size;
  PixelsForward<T>(compute(), size * input_.shape.pixels, batch.pixels,
                   stages_[0].input);
  for (size_t i = 0; i < stages_.size(); ++i) {
    const CnnStage& stage = layout_.stages[i];
    Conv2dForward<T>(compute(), stage.Convolution(size), stages_[i].input,
                     parameter(stage.weight), parameter(stage.bias),
                     conv_scratch_, convolved_);
    // The larger of rectified numbers is the larger one, rectified: a quarter
    // of the work, and the convolution's output need not be kept. Gradients are
    // the same too, since pixels among which this makes a difference have none.
    MaxPoolForward<T>(compute(), stage.Pooling(size), convolved_,
                      StageOutput(i), stages_[i].winners);
    ReluForward<T>(compute(), size * stage.pooled_elems(), StageOutput(i));
  }
  const CnnLinear& hidden = layout_.hidden;
  LinearForward<T>(compute(), hidden.Shape(size), features_,
                   parameter(hidden.weight), parameter(hidden.bias), hidden_);
  ReluForward<T>(compute(), size * hidden.out, hidden_);
}

template <typename Backend>
void Cnn<Backend>::Train(const PlacedBatch& batch, const PassOptions& options,
                         GradientObserver& observer, PassSums* sums) {
  Forward(batch);
  const CnnLinear& output = layout_.output;
  ClassifierTrain<T>(compute(), layout_.Head(batch.size), batch.scale,
                     options.write, hidden_, parameter(output.weight),
                     parameter(output.bias), batch.targets, head_,
                     hidden_gradient_, gradient(output.weight),
                     gradient(output.bias), &sums->loss_sum);
  observer.OnForwardDone();
  observer.OnTensorDone(output.weight);
  observer.OnTensorDone(output.bias);
  Backward(batch.size, options.write, observer);
}

template <typename Backend>
void Cnn<Backend>::Backward(int64_t size, Write write,
                            GradientObserver& observer) {
  const CnnLinear& hidden = layout_.hidden;
  const LinearShape shape = hidden.Shape(size);
  ReluBackward<T>(compute(), size * hidden.out, hidden_, hidden_gradient_,
                  hidden_gradient_);
  // Parameters first: their reduction can then run while the gradient goes on
  // to the layer below.
  LinearBackwardParameters<T>(compute(), shape, write, hidden_gradient_,
                              features_, gradient(hidden.weight),
                              gradient(hidden.bias));
  observer.OnTensorDone(hidden.weight);
  observer.OnTensorDone(hidden.bias);
  LinearBackwardInput<T>(compute(), shape, hidden_gradient_,
                         parameter(hidden.weight), pooled_gradient_);
  for (size_t i = stages_.size(); i-- > 0;)
    BackwardStage(i, size, write, observer);
}

template <typename Backend>
void Cnn<Backend>::BackwardStage(size_t index, int64_t size, Write write,
                                 GradientObserver& observer) {
  const CnnStage& stage = layout_.stages[index];
  const Conv2dShape shape = stage.Convolution(size);
  ReluBackward<T>(compute(), size * stage.pooled_elems(), StageOutput(index),
                  pooled_gradient_, pooled_gradient_);
  MaxPoolBackward<T>(compute(), stage.Pooling(size), pooled_gradient_,
                     stages_[index].winners, convolved_);
  Conv2dBackwardParameters<T>(compute(), shape, write, convolved_,
                              stages_[index].input, conv_scratch_,
                              gradient(stage.weight), gradient(stage.bias));
  observer.OnTensorDone(stage.weight);
  observer.OnTensorDone(stage.bias);
  if (index == 0) return;
  Conv2dBackwardInput<T>(compute(), shape, convolved_, parameter(stage.weight),
                         conv_scratch_, pooled_gradient_);
}

template <typename Backend>
void Cnn<Backend>::Evaluate(const PlacedBatch& batch, PassSums* sums) {
  Forward(batch);
  const CnnLinear& output = layout_.output;
  ClassifierPredict<T>(compute(), layout_.Head(batch.size), hidden_,
                       parameter(output.weight), parameter(output.bias),
                       batch.targets, head_, &sums->predicted_loss,
                       &sums->correct, this->NoteOutcomes());
}

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_CNN_MODEL_H_
