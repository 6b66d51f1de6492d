// The parts of a residual network: its settings, its blocks, its parameter
// tensors by torchvision's names, and the shapes of its operators, on any
// device.
//
// Thread-safety: values.
#ifndef RINGMASTER_WORKER_NN_RESNET_LAYOUT_H_
#define RINGMASTER_WORKER_NN_RESNET_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "worker/nn/batch_norm.h"
#include "worker/nn/classifier.h"
#include "worker/nn/model.h"
#include "worker/nn/model_config.h"
#include "worker/nn/pixels.h"
#include "worker/nn/pooling.h"
#include "worker/nn/strided_conv.h"

namespace ringmaster {

struct ResnetSettings {
  int64_t depth = 18;  // 10, 14, 18, 26, 34, 50, 101 or 152
  int64_t height = 224;
  int64_t width = 224;
  int64_t channels = 3;
  int64_t classes = 1000;
  int64_t filters = 64;  // of the first convolution
  // Samples whose mean and variance normalize them, in the order of the global
  // batch; 0: all that a rank computes at once.
  int64_t norm_group = 0;
  bool zero_init = false;  // of each block's last gamma
  PixelScales pixel_scales;

  int64_t pixels() const { return height * width; }
};

// INVALID_ARGUMENT names a setting that is out of bounds or unknown.
[[nodiscard]] absl::StatusOr<ResnetSettings> ReadResnetSettings(
    const ModelConfig& config);

// The input that the network takes.
ModelInput ResnetInput(const ResnetSettings& settings);

// A convolution and the norm that follows it.
struct ResnetConv {
  std::string name;  // "layer1.0.conv1"
  std::string norm;  // "layer1.0.bn1"
  // Tensor indices.
  int weight = 0;
  int gamma = 0;
  int beta = 0;
  int running_mean = 0;
  int running_variance = 0;
  StridedConvShape one = {};  // for one sample
  int64_t norm_group = 0;

  int64_t input_elems() const { return one.in_pixels() * one.in; }
  int64_t output_elems() const { return one.out_pixels() * one.out; }
  StridedConvShape Convolution(int64_t batch) const {
    StridedConvShape shape = one;
    shape.batch = batch;
    return shape;
  }
  BatchNormShape Norm(int64_t batch) const {
    return {batch, one.out_pixels(), one.out, norm_group};
  }
};

struct ResnetBlock {
  std::vector<ResnetConv> convs;         // in order of execution
  std::optional<ResnetConv> downsample;  // of the branch; none: it is the input

  int64_t output_elems() const { return convs.back().output_elems(); }
};

struct ResnetLayout {
  // The running statistics, whose gradients are known after the forward pass;
  // then in the order in which backward finishes them.
  std::vector<TensorSpec> specs;
  ResnetConv stem;
  PoolingShape pool_one = {};  // 3x3 of the stem's output, for one sample
  std::vector<ResnetBlock> blocks;
  PoolingShape mean_one = {};  // of the last block's output, for one sample
  int fc_weight = 0;
  int fc_bias = 0;
  int64_t classes = 0;

  PoolingShape Pool(int64_t batch) const { return Of(pool_one, batch); }
  PoolingShape Mean(int64_t batch) const { return Of(mean_one, batch); }
  HeadShape Head(int64_t batch) const {
    return {batch, mean_one.channels, classes};
  }
  // Elements of the pooled stem's output, for one sample.
  int64_t pooled_elems() const {
    return (pool_one.height + 1) / 2 * ((pool_one.width + 1) / 2) *
           pool_one.channels;
  }

 private:
  static PoolingShape Of(PoolingShape shape, int64_t batch) {
    shape.batch = batch;
    return shape;
  }
};

ResnetLayout LayOutResnet(const ResnetSettings& settings);

// See Model::flops_per_sample.
double ResnetFlopsPerSample(const ResnetLayout& layout);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_RESNET_LAYOUT_H_
