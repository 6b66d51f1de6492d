// Self-attention on a GPU: what worker/nn/attention.h computes, with the
// same shapes and the same dropout.
//
// Dao et al., "FlashAttention", NeurIPS 2022, in kernels of our own that run on
// every GPU: tiles of queries and keys in shared memory, products and sums in
// float. No window x window matrix is ever in memory. Backward is two kernels,
// one with a block for each tile of queries (dQ) and one with a block for each
// tile of keys (dK, dV), each of which computes the probabilities again: twice
// the products of one pass, but no atomics, so that results do not depend on
// timing.
//
// Shapes, all in device memory, and so are a shape's lengths: qkv, dqkv
// [samples,window,3,heads,head_dim] or apart; out, dout
// [samples,window,heads,head_dim]; log_sum_exp [samples,heads,window]; scratch [AttentionScratchElems]. head_dim is at most
// kMaxHeadDim. T is float, __nv_bfloat16 or __half. The data that dropout
// points to is in device memory, too. Every output is overwritten (=). Outputs
// must not overlap inputs. A value that is not finite may also spoil up to 63
// rows before its own, whose zero probabilities it is multiplied with.
// Thread-safety: as CudaStream.
#ifndef RINGMASTER_WORKER_NN_CUDA_ATTENTION_H_
#define RINGMASTER_WORKER_NN_CUDA_ATTENTION_H_

#include <cstdint>

#include "worker/device/cuda/cuda_stream.h"
#include "worker/nn/attention.h"
#include "worker/nn/cuda/device_dropout.h"

namespace ringmaster::cuda {

inline constexpr int64_t kMaxHeadDim = 256;

// Floats of scratch that backward needs.
inline int64_t AttentionScratchElems(CudaStream& /*stream*/,
                                     AttentionShape shape) {
  return shape.samples * shape.heads * shape.window;
}

// out =, log_sum_exp =
template <typename T>
void TiledAttentionForward(CudaStream& stream, AttentionShape shape,
                           const DeviceDropout& dropout, const T* qkv, T* out,
                           float* log_sum_exp);

// dqkv =, from what forward was given and gave.
template <typename T>
void TiledAttentionBackward(CudaStream& stream, AttentionShape shape,
                            const DeviceDropout& dropout, const T* dout,
                            const T* qkv, const T* out,
                            const float* log_sum_exp, float* scratch, T* dqkv);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_ATTENTION_H_
