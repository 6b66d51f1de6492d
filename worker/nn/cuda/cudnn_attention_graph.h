// Causal self-attention as graphs of cuDNN's operations, which it has kernels
// for (Hopper's tensor cores among them). Shapes and meaning are those of
// attention.h, with elements of 16 bits and without dropout.
//
// The operations and their order are those that cuDNN knows as attention ("Graph
// API, supported graph patterns", NVIDIA; and NVIDIA's open cudnn-frontend).
// Thread-safety: pure.
#ifndef RINGMASTER_WORKER_NN_CUDA_CUDNN_ATTENTION_GRAPH_H_
#define RINGMASTER_WORKER_NN_CUDA_CUDNN_ATTENTION_GRAPH_H_

#include <cudnn.h>

#include <cstdint>

#include "worker/device/cuda/cudnn_library.h"
#include "worker/nn/attention.h"
#include "worker/nn/cuda/cudnn_graph.h"

namespace ringmaster::cuda {

// The tensors of the graphs. Queries, keys and values begin where qkv has their
// first element, and so do their gradients in dqkv.
enum AttentionTensor : int64_t {
  kQueries = 1,
  kKeys,
  kValues,
  kOut,
  kLogSumExp,
  kDout,
  kDeltas,  // [samples,heads,window] floats of scratch
  kDqueries,
  kDkeys,
  kDvalues,
  // [samples,heads,window,head_dim] floats of scratch, for GradientOrder::kAny.
  kQuerySums,
};

// The order in which the gradients of queries are added up over the keys.
enum class GradientOrder {
  // One order, through the gradients of all scores, which the plan keeps in its
  // scratch: two bytes for each pair of a query and a key.
  kFixed,
  // As blocks of threads finish (atomic additions): results depend on timing.
  kAny,
};

// `type` is CUDNN_DATA_BFLOAT16 or CUDNN_DATA_HALF.
CudnnGraph AttentionForwardGraph(const CudnnLibrary& library,
                                 AttentionShape shape, cudnnDataType_t type);
CudnnGraph AttentionBackwardGraph(const CudnnLibrary& library,
                                  AttentionShape shape, cudnnDataType_t type,
                                  GradientOrder order);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_CUDNN_ATTENTION_GRAPH_H_
