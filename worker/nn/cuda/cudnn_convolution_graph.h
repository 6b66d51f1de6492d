// Convolutions as graphs of cuDNN's operations. Shapes and meaning are those of
// conv2d.h: channels innermost, sums in float.
//
// "Graph API, supported graph patterns" (NVIDIA) says which operations may
// follow a convolution.
// Thread-safety: pure.
#ifndef RINGMASTER_WORKER_NN_CUDA_CUDNN_CONVOLUTION_GRAPH_H_
#define RINGMASTER_WORKER_NN_CUDA_CUDNN_CONVOLUTION_GRAPH_H_

#include <cudnn.h>

#include <cstdint>

#include "worker/device/cuda/cudnn_library.h"
#include "worker/nn/conv2d.h"
#include "worker/nn/cuda/cudnn_graph.h"

namespace ringmaster::cuda {

// The tensors of the graphs. A gradient goes by the name of what it belongs to.
enum ConvolutionTensor : int64_t {
  kImages = 1,  // x or dx
  kWeight,      // or dweight
  kBias,
  kResult,  // y or dy
};

// `shape` may have a stride; a bias is added going forward, if there is one.
// `type` is the type of all tensors but the gradient of the weight, which is of
// floats.
CudnnGraph ConvolutionGraph(const CudnnLibrary& library, ConvolutionPass pass,
                            const Conv2dShape& shape, cudnnDataType_t type,
                            bool has_bias = true);

// The limits on the plans: no sums in an order that depends on timing, or in
// less than float, and no transforms that lose digits; products of floats in
// TF32 only if `use_tf32`.
CudnnPlanOptions ConvolutionPlanOptions(cudnnDataType_t type, bool use_tf32);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_CUDNN_CONVOLUTION_GRAPH_H_
