// Self-attention of a model on a GPU: by cuDNN where CudaCompute has it
// and it can (16 bits, no lengths, no dropout: its masks are not those of a
// sample's id), by our own kernels elsewhere. Shapes, meaning and guarantees are those of
// attention.h.
//
// Thread-safety: as CudaCompute; errors are the stream's.
#ifndef RINGMASTER_WORKER_NN_CUDA_SELF_ATTENTION_H_
#define RINGMASTER_WORKER_NN_CUDA_SELF_ATTENTION_H_

#include "worker/nn/attention.h"
#include "worker/nn/cuda/cuda_compute.h"
#include "worker/nn/cuda/device_dropout.h"

namespace ringmaster::cuda {

// out =, log_sum_exp =
template <typename T>
void AttentionForward(const CudaCompute& compute, AttentionShape shape,
                      const DeviceDropout& dropout, const T* qkv, T* out,
                      float* log_sum_exp);

// dqkv =, from what forward was given and gave. scratch
// [AttentionScratchElems].
template <typename T>
void AttentionBackward(const CudaCompute& compute, AttentionShape shape,
                       const DeviceDropout& dropout, const T* dout,
                       const T* qkv, const T* out, const float* log_sum_exp,
                       float* scratch, T* dqkv);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_SELF_ATTENTION_H_
