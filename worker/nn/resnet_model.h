// The model `resnet`: tells the class of an image (He et al., "Deep Residual
// Learning for Image Recognition", 2015), with torchvision's tensors.
//
//   pixels [B,height,width,channels], normalized channel by channel
//     -> 7x7 convolution with stride 2, norm, ReLU -> 3x3 max pooling, stride 2
//     -> blocks in four stages: x = ReLU(branch + x), where the branch has two
//        3x3 convolutions, or one between two of 1x1 (a bottleneck), each with
//        its norm; where sizes differ x goes through a 1x1 convolution
//     -> mean of all pixels -> linear to logits [B,classes] -> cross entropy
//
// Norms are batch norms; see batch_norm.h. Their running mean and variance are
// tensors that are tracked, not trained (TensorSpec::tracking_rate): a training
// pass makes the distance from its own statistics their gradient, which is
// reduced over the ranks as any other. Evaluate uses them.
// Tensors are conv1.weight [out,in,7,7], bn1.weight, bn1.bias, bn1.running_mean,
// bn1.running_var, layer1.0.conv1.weight, ..., layer2.0.downsample.0.weight,
// layer2.0.downsample.1.weight, ..., fc.weight [classes,features], fc.bias.
// Settings: those of ResnetSettings.
#ifndef RINGMASTER_WORKER_NN_RESNET_MODEL_H_
#define RINGMASTER_WORKER_NN_RESNET_MODEL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/plan/plan.h"
#include "worker/nn/backend.h"
#include "worker/nn/batch_norm.h"
#include "worker/nn/buffer_cutter.h"
#include "worker/nn/classifier.h"
#include "worker/nn/model.h"
#include "worker/nn/pixels.h"
#include "worker/nn/pooling.h"
#include "worker/nn/resnet_layout.h"
#include "worker/nn/strided_conv.h"

namespace ringmaster {

template <typename Backend>
class Resnet final : public Backend {
 public:
  Resnet(const typename Backend::Parts& parts, const ResnetSettings& settings)
      : Backend(parts),
        input_(ResnetInput(settings)),
        pixel_scales_(settings.pixel_scales),
        layout_(LayOutResnet(settings)) {}

  static absl::StatusOr<ResnetSettings> ReadSettings(
      const ModelConfig& config) {
    return ReadResnetSettings(config);
  }

  absl::Span<const TensorSpec> specs() const override { return layout_.specs; }
  const ModelInput& input() const override { return input_; }
  double flops_per_sample() const override {
    return ResnetFlopsPerSample(layout_);
  }

 protected:
  using PlacedBatch = typename Backend::PlacedBatch;

  void Cut(BufferCutter& cutter) override;
  const char* kind() const override { return "resnet"; }
  void Train(const PlacedBatch& batch, const PassOptions& options,
             GradientObserver& observer, PassSums* sums) override;
  void Evaluate(const PlacedBatch& batch, PassSums* sums) override;

 private:
  using T = typename Backend::Element;
  using Sum = typename Backend::Sum;
  using Backend::compute;
  using Backend::gradient;
  using Backend::max_batch;
  using Backend::parameter;
  using Backend::statistic;

  // The values that a convolution and its norm keep for the backward pass.
  struct ConvBuffers {
    T* input = nullptr;      // somebody else's output
    T* convolved = nullptr;  // [B,pixels,out]: the norm's input
    T* output = nullptr;     // [B,pixels,out]: rectified
    Sum* mean = nullptr;     // [groups,out]
    Sum* variance = nullptr;
  };
  struct BlockBuffers {
    std::vector<ConvBuffers> convs;
    ConvBuffers downsample;  // without an output of its own
    T* input = nullptr;
  };

  // Takes the buffers of `conv`, but for its output.
  ConvBuffers TakeConv(const ResnetConv& conv, T* input, BufferCutter& cutter);

  // Computes the head's input, with the statistics of `batch`, or with the
  // running ones; false if it was cancelled.
  bool Forward(const PlacedBatch& batch, bool is_training,
               const PassOptions& options);
  void ForwardConv(const ResnetConv& conv, const ConvBuffers& buffers,
                   int64_t size, bool is_training, BatchNormNext<T> next,
                   T* output);
  // The gradients of the running statistics.
  void Track(const PlacedBatch& batch, Write write, GradientObserver& observer);
  // Starts from the gradient of the head's input, in mean_gradient_.
  void Backward(int64_t size, const PassOptions& options,
                GradientObserver& observer);
  // gradients_[0] is that of the block's output, and then of its input.
  void BackwardBlock(size_t index, int64_t size, Write write,
                     GradientObserver& observer);
  // From the gradient of the norm's output to that of the convolution's, which
  // may be the same array; `rectified` and `branch` as for BatchNormBackward.
  void BackwardNorm(const ResnetConv& conv, const ConvBuffers& buffers,
                    int64_t size, Write write, const T* dy, const T* rectified,
                    T* branch, T* dx, GradientObserver& observer);
  void BackwardWeight(const ResnetConv& conv, const ConvBuffers& buffers,
                      int64_t size, Write write, const T* dy,
                      GradientObserver& observer);
  void BackwardInput(const ResnetConv& conv, int64_t size, Write write,
                     const T* dy, T* dx) {
    StridedConvBackwardInput<T>(compute(), conv.Convolution(size), dy,
                                parameter(conv.weight), conv_scratch_, write,
                                dx);
  }

  const ModelInput input_;
  const PixelScales pixel_scales_;
  const ResnetLayout layout_;

  T* pixels_ = nullptr;  // [B,height,width,channels]
  ConvBuffers stem_;
  uint8_t* winners_ = nullptr;  // of the stem's pooling
  std::vector<BlockBuffers> blocks_;
  T* mean_ = nullptr;           // [B,features]: the head's input
  T* mean_gradient_ = nullptr;  // [B,features]
  T* gradients_[3] = {};        // [B, most of an activation] each
  Sum* norm_scratch_ = nullptr;
  StridedConvScratch<T> conv_scratch_ = {};
  typename Backend::ClassifierScratch head_;
};

template <typename Backend>
typename Resnet<Backend>::ConvBuffers Resnet<Backend>::TakeConv(
    const ResnetConv& conv, T* input, BufferCutter& cutter) {
  const int64_t groups = conv.Norm(max_batch()).groups();
  ConvBuffers buffers;
  buffers.input = input;
  buffers.convolved = cutter.Take<T>(max_batch() * conv.output_elems());
  buffers.mean = cutter.Take<Sum>(groups * conv.one.out);
  buffers.variance = cutter.Take<Sum>(groups * conv.one.out);
  return buffers;
}

template <typename Backend>
void Resnet<Backend>::Cut(BufferCutter& cutter) {
  int64_t most = 0;
  int64_t norm_scratch = 0;
  int64_t conv_scratch = 0;
  const auto note = [&](const ResnetConv& conv) {
    most = std::max(most, conv.output_elems());
    norm_scratch = std::max(
        norm_scratch, BatchNormScratchElems(compute(), conv.Norm(max_batch())));
    conv_scratch = std::max(
        conv_scratch,
        StridedConvScratchElems(compute(), conv.Convolution(max_batch())));
  };
  const auto take = [&](const ResnetConv& conv, T* input) {
    note(conv);
    ConvBuffers buffers = TakeConv(conv, input, cutter);
    buffers.output = cutter.Take<T>(max_batch() * conv.output_elems());
    return buffers;
  };
  pixels_ = cutter.Take<T>(max_batch() * input_.shape.pixels);
  stem_ = take(layout_.stem, pixels_);
  winners_ = cutter.Take<uint8_t>(max_batch() * layout_.pooled_elems());
  T* x = cutter.Take<T>(max_batch() * layout_.pooled_elems());
  blocks_.clear();
  for (const ResnetBlock& block : layout_.blocks) {
    BlockBuffers& buffers = blocks_.emplace_back();
    buffers.input = x;
    for (const ResnetConv& conv : block.convs) {
      buffers.convs.push_back(take(conv, x));
      x = buffers.convs.back().output;
    }
    if (!block.downsample) continue;
    note(*block.downsample);
    buffers.downsample = TakeConv(*block.downsample, buffers.input, cutter);
  }
  mean_ = cutter.Take<T>(max_batch() * layout_.mean_one.channels);
  mean_gradient_ = cutter.Take<T>(max_batch() * layout_.mean_one.channels);
  for (T*& buffer : gradients_) buffer = cutter.Take<T>(max_batch() * most);
  norm_scratch_ = cutter.Take<Sum>(norm_scratch);
  conv_scratch_ = {cutter.Take<T>(conv_scratch), conv_scratch};
  head_ =
      TakeClassifierScratch<T>(compute(), layout_.Head(max_batch()), cutter);
}

template <typename Backend>
void Resnet<Backend>::ForwardConv(const ResnetConv& conv,
                                  const ConvBuffers& buffers, int64_t size,
                                  bool is_training, BatchNormNext<T> next,
                                  T* output) {
  StridedConvForward<T>(compute(), conv.Convolution(size), buffers.input,
                        parameter(conv.weight), conv_scratch_,
                        buffers.convolved);
  if (is_training) {
    BatchNormForward<T>(compute(), conv.Norm(size), buffers.convolved,
                        parameter(conv.gamma), parameter(conv.beta), next,
                        norm_scratch_, output, buffers.mean, buffers.variance);
  } else {
    BatchNormPredict<T>(
        compute(), conv.Norm(size), buffers.convolved, parameter(conv.gamma),
        parameter(conv.beta), statistic(conv.running_mean),
        statistic(conv.running_variance), next, norm_scratch_, output);
  }
}

template <typename Backend>
bool Resnet<Backend>::Forward(const PlacedBatch& batch, bool is_training,
                              const PassOptions& options) {
  const int64_t size = batch.size;
  NormalizePixels<T>(compute(),
                     size * (input_.shape.pixels / pixel_scales_.channels),
                     pixel_scales_, batch.pixels, pixels_);
  ForwardConv(layout_.stem, stem_, size, is_training, {}, stem_.output);
  MaxPool3Forward<T>(compute(), layout_.Pool(size), stem_.output,
                     blocks_[0].input, winners_);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (options.is_cancelled()) return false;
    const ResnetBlock& block = layout_.blocks[i];
    const BlockBuffers& buffers = blocks_[i];
    BatchNormNext<T> last = {.branch = buffers.input};
    if (block.downsample) {
      // No gradient is there yet.
      last.branch = gradients_[0];
      ForwardConv(*block.downsample, buffers.downsample, size, is_training,
                  {.rectifies = false}, gradients_[0]);
    }
    for (size_t k = 0; k < block.convs.size(); ++k) {
      const bool is_last = k + 1 == block.convs.size();
      ForwardConv(block.convs[k], buffers.convs[k], size, is_training,
                  is_last ? last : BatchNormNext<T>(), buffers.convs[k].output);
    }
  }
  MeanPoolForward<T>(compute(), layout_.Mean(size),
                     blocks_.back().convs.back().output, mean_);
  return true;
}

template <typename Backend>
void Resnet<Backend>::Track(const PlacedBatch& batch, Write write,
                            GradientObserver& observer) {
  const auto track = [&](const ResnetConv& conv, const ConvBuffers& buffers) {
    BatchNormTrack<Sum>(
        compute(), conv.Norm(batch.size), batch.scale, write, buffers.mean,
        buffers.variance, statistic(conv.running_mean),
        statistic(conv.running_variance), gradient(conv.running_mean),
        gradient(conv.running_variance));
    observer.OnTensorDone(conv.running_mean);
    observer.OnTensorDone(conv.running_variance);
  };
  track(layout_.stem, stem_);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const ResnetBlock& block = layout_.blocks[i];
    for (size_t k = 0; k < block.convs.size(); ++k)
      track(block.convs[k], blocks_[i].convs[k]);
    if (block.downsample) track(*block.downsample, blocks_[i].downsample);
  }
}

template <typename Backend>
void Resnet<Backend>::Train(const PlacedBatch& batch,
                            const PassOptions& options,
                            GradientObserver& observer, PassSums* sums) {
  if (!Forward(batch, /*is_training=*/true, options)) return;
  ClassifierTrain<T>(compute(), layout_.Head(batch.size), batch.scale,
                     options.write, mean_, parameter(layout_.fc_weight),
                     parameter(layout_.fc_bias), batch.targets, head_,
                     mean_gradient_, gradient(layout_.fc_weight),
                     gradient(layout_.fc_bias), &sums->loss_sum);
  observer.OnForwardDone();
  Track(batch, options.write, observer);
  observer.OnTensorDone(layout_.fc_weight);
  observer.OnTensorDone(layout_.fc_bias);
  Backward(batch.size, options, observer);
}

template <typename Backend>
void Resnet<Backend>::Backward(int64_t size, const PassOptions& options,
                               GradientObserver& observer) {
  MeanPoolBackward<T>(compute(), layout_.Mean(size), mean_gradient_,
                      gradients_[0]);
  for (size_t i = blocks_.size(); i-- > 0;) {
    if (options.is_cancelled()) return;
    BackwardBlock(i, size, options.write, observer);
  }
  MaxPool3Backward<T>(compute(), layout_.Pool(size), gradients_[0], winners_,
                      gradients_[1]);
  BackwardNorm(layout_.stem, stem_, size, options.write, gradients_[1],
               stem_.output, /*branch=*/nullptr, gradients_[1], observer);
  BackwardWeight(layout_.stem, stem_, size, options.write, gradients_[1],
                 observer);
}

template <typename Backend>
void Resnet<Backend>::BackwardNorm(const ResnetConv& conv,
                                   const ConvBuffers& buffers, int64_t size,
                                   Write write, const T* dy, const T* rectified,
                                   T* branch, T* dx,
                                   GradientObserver& observer) {
  BatchNormBackward<T>(compute(), conv.Norm(size), write, dy, rectified,
                       buffers.convolved, parameter(conv.gamma), buffers.mean,
                       buffers.variance, norm_scratch_, dx,
                       gradient(conv.gamma), gradient(conv.beta), branch);
  observer.OnTensorDone(conv.gamma);
  observer.OnTensorDone(conv.beta);
}

template <typename Backend>
void Resnet<Backend>::BackwardWeight(const ResnetConv& conv,
                                     const ConvBuffers& buffers, int64_t size,
                                     Write write, const T* dy,
                                     GradientObserver& observer) {
  StridedConvBackwardWeight<T>(compute(), conv.Convolution(size), write, dy,
                               buffers.input, conv_scratch_,
                               gradient(conv.weight));
  observer.OnTensorDone(conv.weight);
}

template <typename Backend>
void Resnet<Backend>::BackwardBlock(size_t index, int64_t size, Write write,
                                    GradientObserver& observer) {
  const ResnetBlock& block = layout_.blocks[index];
  const BlockBuffers& buffers = blocks_[index];
  T*& output = gradients_[0];  // then of the branch
  T*& convolved = gradients_[1];
  T*& next = gradients_[2];
  for (size_t k = block.convs.size(); k-- > 0;) {
    const ResnetConv& conv = block.convs[k];
    const ConvBuffers& own = buffers.convs[k];
    const bool is_last = k + 1 == block.convs.size();
    BackwardNorm(conv, own, size, write, is_last ? output : convolved,
                 own.output, is_last ? output : nullptr, convolved, observer);
    BackwardWeight(conv, own, size, write, convolved, observer);
    if (k == 0) break;
    BackwardInput(conv, size, Write::kSet, convolved, next);
    std::swap(convolved, next);
  }
  if (block.downsample) {
    const ResnetConv& conv = *block.downsample;
    BackwardNorm(conv, buffers.downsample, size, write, output,
                 /*rectified=*/nullptr, /*branch=*/nullptr, output, observer);
    BackwardWeight(conv, buffers.downsample, size, write, output, observer);
    BackwardInput(conv, size, Write::kSet, output, next);
    std::swap(output, next);
  }
  BackwardInput(block.convs[0], size, Write::kAdd, convolved, output);
}

template <typename Backend>
void Resnet<Backend>::Evaluate(const PlacedBatch& batch, PassSums* sums) {
  Forward(batch, /*is_training=*/false, {});
  ClassifierPredict<T>(compute(), layout_.Head(batch.size), mean_,
                       parameter(layout_.fc_weight), parameter(layout_.fc_bias),
                       batch.targets, head_, &sums->predicted_loss,
                       &sums->correct, this->NoteOutcomes());
}

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_RESNET_MODEL_H_
