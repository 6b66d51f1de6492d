// CudaCompute is what an operator on a GPU runs on: the counterpart of Compute.
//
// Thread-safety: a value; operators of one CudaCompute are queued by one thread
// at a time, on its stream.
// Ownership: refers to what it names.
#ifndef RINGMASTER_WORKER_NN_CUDA_CUDA_COMPUTE_H_
#define RINGMASTER_WORKER_NN_CUDA_CUDA_COMPUTE_H_

#include "worker/device/cuda/cuda_stream.h"
#include "worker/nn/cuda/cudnn_attention.h"
#include "worker/nn/cuda/cudnn_convolution.h"
#include "worker/nn/cuda/matmul.h"

namespace ringmaster::cuda {

struct CudaCompute {
  CudaStream& stream;
  CudaMatmul& matmul;  // of the same stream
  // Also of the same stream; if null, attention runs on our own kernels.
  CudnnAttention* cudnn_attention = nullptr;
  // The same for convolutions.
  CudnnConvolution* cudnn_convolution = nullptr;

  // For operators that need the stream alone: a model calls them all alike, see
  // worker/nn/backend.h.
  operator CudaStream&() const { return stream; }  // NOLINT: implicit
};

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_CUDA_COMPUTE_H_
