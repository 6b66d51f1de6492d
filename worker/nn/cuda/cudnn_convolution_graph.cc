#include "worker/nn/cuda/cudnn_convolution_graph.h"

namespace ringmaster::cuda {
namespace {

// A plan that wants more scratch is not used.
constexpr int64_t kMostWorkspaceBytes = int64_t{256} << 20;

// [images,height,width,channels] in memory; cuDNN names dimensions in the order
// images, channels, height, width.
CudnnTensorShape ChannelsInnermost(int64_t images, int64_t channels,
                                   int64_t height, int64_t width,
                                   cudnnDataType_t type) {
  return {{images, channels, height, width},
          {height * width * channels, 1, width * channels, channels},
          type};
}

}  // namespace

CudnnGraph ConvolutionGraph(const CudnnLibrary& library, ConvolutionPass pass,
                            const Conv2dShape& shape, cudnnDataType_t type,
                            bool has_bias) {
  const auto& [batch, height, width, in, out, kernel, stride] = shape;
  CudnnGraph graph(library);
  const CudnnTensorShape result = ChannelsInnermost(
      batch, out, (height - 1) / stride + 1, (width - 1) / stride + 1, type);
  CudnnTensorShape weight = ChannelsInnermost(out, in, kernel, kernel, type);
  const CudnnTensor* const x =
      graph.Real(kImages, ChannelsInnermost(batch, in, height, width, type));
  switch (pass) {
    case ConvolutionPass::kForward: {
      if (!has_bias) {
        graph.Convolution(pass, kernel / 2, stride, x,
                          graph.Real(kWeight, weight),
                          graph.Real(kResult, result));
        break;
      }
      CudnnTensorShape sums = result;
      sums.type = CUDNN_DATA_FLOAT;
      const CudnnTensor* const unbiased = graph.Virtual(sums);
      graph.Convolution(pass, kernel / 2, stride, x,
                        graph.Real(kWeight, weight), unbiased);
      const CudnnTensor* const bias =
          graph.Real(kBias, ChannelsInnermost(1, out, 1, 1, type));
      graph.Pointwise(CUDNN_POINTWISE_ADD, {unbiased, bias},
                      graph.Real(kResult, result));
      break;
    }
    case ConvolutionPass::kBackwardInput:
      graph.Convolution(pass, kernel / 2, stride, x,
                        graph.Real(kWeight, weight),
                        graph.Real(kResult, result));
      break;
    case ConvolutionPass::kBackwardWeight: {
      weight.type = CUDNN_DATA_FLOAT;
      const CudnnTensor* const dy = graph.Real(kResult, result);
      if (type == CUDNN_DATA_FLOAT) {
        graph.Convolution(pass, kernel / 2, stride, x,
                          graph.Real(kWeight, weight), dy);
        break;
      }
      // From elements of 16 bits cuDNN has sums in float only for what follows
      // in the same kernel.
      const CudnnTensor* const sums = graph.Virtual(weight);
      graph.Convolution(pass, kernel / 2, stride, x, sums, dy);
      graph.Pointwise(CUDNN_POINTWISE_ADD, {sums, graph.Number(0.0f)},
                      graph.Real(kWeight, weight));
      break;
    }
  }
  return graph;
}

CudnnPlanOptions ConvolutionPlanOptions(cudnnDataType_t type, bool use_tf32) {
  CudnnPlanOptions options = {
      .refused = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
                  CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
                  CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
                  CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_WINOGRAD,
                  CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4,
                  CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
                  CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13},
      .workspace_bytes = kMostWorkspaceBytes};
  // Tensor cores multiply floats as TF32.
  if (type == CUDNN_DATA_FLOAT && !use_tf32)
    options.refused.push_back(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  return options;
}

}  // namespace ringmaster::cuda
