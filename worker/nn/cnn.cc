#include "worker/nn/cnn.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/plan/plan.h"
#include "common/status/status_macros.h"
#include "common/sync/thread_pool.h"
#include "worker/nn/buffer_cutter.h"
#include "worker/nn/classifier.h"
#include "worker/nn/cnn_layout.h"
#include "worker/nn/conv2d.h"
#include "worker/nn/linear.h"
#include "worker/nn/pooling.h"
#include "worker/nn/relu.h"

namespace ringmaster {
namespace {

// Bytes of pixels that a thread converts at once.
constexpr int64_t kPixelGrain = 16384;

template <typename T>
class Cnn final : public Model<T> {
 public:
  static absl::StatusOr<std::unique_ptr<Model<T>>> Create(
      const ModelConfig& config, const Compute& compute, int64_t max_batch) {
    ASSIGN_OR_RETURN(const CnnSettings settings, ReadCnnSettings(config));
    auto model = std::make_unique<Cnn>(settings, compute, max_batch);
    RETURN_IF_ERROR(model->arena_.Plan(
        [&model](BufferCutter<T>& cutter) { model->CutBuffers(cutter); }));
    return model;
  }

  Cnn(const CnnSettings& settings, const Compute& compute, int64_t max_batch)
      : compute_(compute),
        max_batch_(max_batch),
        input_(CnnInput(settings)),
        layout_(LayOutCnn(settings)) {}

  absl::Span<const TensorSpec> specs() const override { return layout_.specs; }
  const ModelInput& input() const override { return input_; }
  int64_t max_batch() const override { return max_batch_; }
  int64_t buffer_bytes() const override { return arena_.size_bytes(); }
  double flops_per_sample() const override {
    return CnnFlopsPerSample(layout_);
  }
  absl::Status Bind(const Plan& plan, absl::Span<const T> parameters,
                    absl::Span<T> gradients) override {
    return bound_.Bind(layout_.specs, plan, parameters, gradients, "cnn");
  }
  double ForwardBackward(const Batch& batch, const TrainOptions& options,
                         GradientObserver& observer) override;
  Prediction Predict(const Batch& batch) override;

 private:
  // The values that a stage's forward pass keeps for its backward pass.
  struct StageBuffers {
    T* input = nullptr;          // [B,height,width,in]
    uint8_t* winners = nullptr;  // [B,height/2,width/2,out]: of the pooling
  };

  void CutBuffers(BufferCutter<T>& cutter);
  // Computes the input of the output layer.
  void Forward(const Batch& batch);
  // Starts from the gradient of the output layer's input, in hidden_gradient_.
  void Backward(int64_t size, Write write, GradientObserver& observer);
  void BackwardStage(size_t index, int64_t size, Write write,
                     GradientObserver& observer);
  // Returns the buffer for a stage's output.
  T* StageOutput(size_t index) const {
    return index + 1 < stages_.size() ? stages_[index + 1].input : features_;
  }

  const Compute compute_;
  const int64_t max_batch_;
  const ModelInput input_;
  const CnnLayout layout_;

  BufferArena<T> arena_;
  std::vector<StageBuffers> stages_;
  // [B, most of a stage]: a convolution's output before the pooling; while
  // going back, its gradient.
  T* convolved_ = nullptr;
  T* features_ = nullptr;         // [B,features]: output of the last stage
  T* hidden_ = nullptr;           // [B,hidden]
  T* hidden_gradient_ = nullptr;  // [B,hidden]
  T* pooled_gradient_ = nullptr;  // [B, most of a stage]: of a stage's output
  T* conv_scratch_ = nullptr;
  T* logits_ = nullptr;  // of the rows that the classifier takes at once

  BoundTensors<T> bound_;
};

template <typename T>
void Cnn<T>::CutBuffers(BufferCutter<T>& cutter) {
  constexpr auto kBytesPerElem = static_cast<int64_t>(sizeof(T));
  int64_t most_convolved = 0;
  int64_t most_pooled = 0;
  int64_t most_scratch = 0;
  stages_.clear();
  for (const CnnStage& stage : layout_.stages) {
    StageBuffers& buffers = stages_.emplace_back();
    buffers.input = cutter.Take(max_batch_ * stage.input_elems());
    const int64_t winners = max_batch_ * stage.pooled_elems();
    buffers.winners = reinterpret_cast<uint8_t*>(
        cutter.Take((winners + kBytesPerElem - 1) / kBytesPerElem));
    most_convolved = std::max(most_convolved, stage.convolved_elems());
    most_pooled = std::max(most_pooled, stage.pooled_elems());
    most_scratch = std::max(most_scratch,
                            Conv2dScratchElems(stage.Convolution(max_batch_)));
  }
  convolved_ = cutter.Take(max_batch_ * most_convolved);
  features_ = cutter.Take(max_batch_ * layout_.hidden.in);
  hidden_ = cutter.Take(max_batch_ * layout_.hidden.out);
  hidden_gradient_ = cutter.Take(max_batch_ * layout_.hidden.out);
  pooled_gradient_ = cutter.Take(max_batch_ * most_pooled);
  conv_scratch_ = cutter.Take(most_scratch);
  logits_ = cutter.Take(ClassifierChunkRows(layout_.Head(max_batch_)) *
                        layout_.output.out);
}

template <typename T>
void Cnn<T>::Forward(const Batch& batch) {
  const int64_t size = batch.size();
  const uint8_t* const pixels = batch.pixels().data();
  T* const input = stages_[0].input;
  compute_.pool.ParallelFor(size * input_.shape.pixels, kPixelGrain,
                            [&](int64_t begin, int64_t end) {
                              for (int64_t i = begin; i < end; ++i)
                                input[i] = static_cast<T>(pixels[i]) / T{255};
                            });
  for (size_t i = 0; i < stages_.size(); ++i) {
    const CnnStage& stage = layout_.stages[i];
    Conv2dForward<T>(compute_, stage.Convolution(size), stages_[i].input,
                     bound_.parameter(stage.weight),
                     bound_.parameter(stage.bias), conv_scratch_, convolved_);
    // The larger of rectified numbers is the larger one, rectified: a quarter
    // of the work, and the convolution's output need not be kept. Gradients are
    // the same too, since pixels among which this makes a difference have none.
    MaxPoolForward<T>(compute_, stage.Pooling(size), convolved_, StageOutput(i),
                      stages_[i].winners);
    ReluForward<T>(compute_, size * stage.pooled_elems(), StageOutput(i));
  }
  const CnnLinear& hidden = layout_.hidden;
  LinearForward<T>(compute_, hidden.Shape(size), features_,
                   bound_.parameter(hidden.weight),
                   bound_.parameter(hidden.bias), hidden_);
  ReluForward<T>(compute_, size * hidden.out, hidden_);
}

template <typename T>
double Cnn<T>::ForwardBackward(const Batch& batch, const TrainOptions& options,
                               GradientObserver& observer) {
  bound_.CheckBatch(batch, input_, max_batch_);
  Forward(batch);
  const CnnLinear& output = layout_.output;
  const double loss_sum = ClassifierTrain<T>(
      compute_, layout_.Head(batch.size()), options.scale, options.write,
      hidden_, bound_.parameter(output.weight), bound_.parameter(output.bias),
      batch.targets().data(), logits_, hidden_gradient_,
      bound_.gradient(output.weight), bound_.gradient(output.bias));
  observer.OnForwardDone();
  observer.OnTensorDone(output.weight);
  observer.OnTensorDone(output.bias);
  Backward(batch.size(), options.write, observer);
  return loss_sum;
}

template <typename T>
void Cnn<T>::Backward(int64_t size, Write write, GradientObserver& observer) {
  const CnnLinear& hidden = layout_.hidden;
  const LinearShape shape = hidden.Shape(size);
  ReluBackward<T>(compute_, size * hidden.out, hidden_, hidden_gradient_,
                  hidden_gradient_);
  // Parameters first: their reduction can then run while the gradient goes on
  // to the layer below.
  LinearBackwardWeight<T>(compute_, shape, write, hidden_gradient_, features_,
                          bound_.gradient(hidden.weight));
  observer.OnTensorDone(hidden.weight);
  LinearBackwardBias<T>(compute_, shape, write, hidden_gradient_,
                        bound_.gradient(hidden.bias));
  observer.OnTensorDone(hidden.bias);
  LinearBackwardInput<T>(compute_, shape, hidden_gradient_,
                         bound_.parameter(hidden.weight), pooled_gradient_);
  for (size_t i = stages_.size(); i-- > 0;)
    BackwardStage(i, size, write, observer);
}

template <typename T>
void Cnn<T>::BackwardStage(size_t index, int64_t size, Write write,
                           GradientObserver& observer) {
  const CnnStage& stage = layout_.stages[index];
  const Conv2dShape shape = stage.Convolution(size);
  ReluBackward<T>(compute_, size * stage.pooled_elems(), StageOutput(index),
                  pooled_gradient_, pooled_gradient_);
  MaxPoolBackward<T>(compute_, stage.Pooling(size), pooled_gradient_,
                     stages_[index].winners, convolved_);
  Conv2dBackwardParameters<T>(
      compute_, shape, write, convolved_, stages_[index].input, conv_scratch_,
      bound_.gradient(stage.weight), bound_.gradient(stage.bias));
  observer.OnTensorDone(stage.weight);
  observer.OnTensorDone(stage.bias);
  if (index == 0) return;
  Conv2dBackwardInput<T>(compute_, shape, convolved_,
                         bound_.parameter(stage.weight), conv_scratch_,
                         pooled_gradient_);
}

template <typename T>
Prediction Cnn<T>::Predict(const Batch& batch) {
  bound_.CheckBatch(batch, input_, max_batch_);
  Forward(batch);
  const CnnLinear& output = layout_.output;
  const ClassifierResult result = ClassifierPredict<T>(
      compute_, layout_.Head(batch.size()), hidden_,
      bound_.parameter(output.weight), bound_.parameter(output.bias),
      batch.targets().data(), logits_);
  return {result.loss_sum, result.correct};
}

}  // namespace

template <typename T>
absl::StatusOr<std::unique_ptr<Model<T>>> CreateCnn(const ModelConfig& config,
                                                    const Compute& compute,
                                                    int64_t max_batch) {
  return Cnn<T>::Create(config, compute, max_batch);
}

template absl::StatusOr<std::unique_ptr<Model<float>>> CreateCnn<float>(
    const ModelConfig&, const Compute&, int64_t);
template absl::StatusOr<std::unique_ptr<Model<double>>> CreateCnn<double>(
    const ModelConfig&, const Compute&, int64_t);

}  // namespace ringmaster
