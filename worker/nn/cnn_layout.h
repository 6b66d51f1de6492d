// The parts of a convolutional network: its settings, its stages, its parameter
// tensors by name, and the shapes of its operators, on any device.
//
// Thread-safety: values.
#ifndef RINGMASTER_WORKER_NN_CNN_LAYOUT_H_
#define RINGMASTER_WORKER_NN_CNN_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "worker/nn/classifier.h"
#include "worker/nn/conv2d.h"
#include "worker/nn/linear.h"
#include "worker/nn/model.h"
#include "worker/nn/model_config.h"
#include "worker/nn/pooling.h"

namespace ringmaster {

struct CnnSettings {
  int64_t height = 28;
  int64_t width = 28;
  int64_t channels = 1;
  int64_t classes = 10;
  std::vector<int64_t> filters = {32, 64};
  int64_t hidden_dim = 128;

  int64_t pixels() const { return height * width * channels; }
};

// INVALID_ARGUMENT names a setting that is out of bounds or unknown.
[[nodiscard]] absl::StatusOr<CnnSettings> ReadCnnSettings(
    const ModelConfig& config);

// The input that the network takes.
ModelInput CnnInput(const CnnSettings& settings);

inline constexpr int64_t kCnnKernel = 3;

// A convolution and the operators that follow it.
struct CnnStage {
  int weight = 0;  // tensor index
  int bias = 0;    // tensor index
  // The height and width of its input.
  int64_t height = 0;
  int64_t width = 0;
  int64_t in = 0;   // channels
  int64_t out = 0;  // channels

  int64_t input_elems() const { return height * width * in; }
  int64_t convolved_elems() const { return height * width * out; }
  int64_t pooled_elems() const { return (height / 2) * (width / 2) * out; }
  Conv2dShape Convolution(int64_t batch) const {
    return {batch, height, width, in, out, kCnnKernel};
  }
  PoolingShape Pooling(int64_t batch) const {
    return {batch, height, width, out};
  }
};

// Tensor indices of a linear layer.
struct CnnLinear {
  int weight = 0;
  int bias = 0;
  int64_t in = 0;
  int64_t out = 0;

  LinearShape Shape(int64_t batch) const { return {batch, in, out}; }
};

struct CnnLayout {
  // In the order in which backward finishes them: the output, the hidden layer,
  // the stages from the last to the first.
  std::vector<TensorSpec> specs;
  std::vector<CnnStage> stages;  // in order of execution
  CnnLinear hidden;
  CnnLinear output;

  HeadShape Head(int64_t batch) const { return {batch, output.in, output.out}; }
};

CnnLayout LayOutCnn(const CnnSettings& settings);

// See Model::flops_per_sample.
double CnnFlopsPerSample(const CnnLayout& layout);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_CNN_LAYOUT_H_
