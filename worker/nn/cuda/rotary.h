// Rotary position embedding on a GPU: the operators of worker/nn/rotary.h.
//
// All arrays are in device memory. T is float, __nv_bfloat16 or __half; the table
// is float.
// Guarantees: the same result, to the bit, for each call with the same operands.
// Thread-safety: as CudaStream; errors are the stream's.
#ifndef RINGMASTER_WORKER_NN_CUDA_ROTARY_H_
#define RINGMASTER_WORKER_NN_CUDA_ROTARY_H_

#include <cstdint>

#include "worker/device/cuda/cuda_stream.h"
#include "worker/nn/rotary.h"

namespace ringmaster::cuda {

// table =
void RotaryTable(CudaStream& stream, int64_t window, int64_t head_dim,
                 double theta, float* table);

// qkv =
template <typename T>
void RotaryForward(CudaStream& stream, const RotaryShape& shape, const T* q,
                   const T* k, const T* v, const float* table, T* qkv);

// dq =, dk =, dv =
template <typename T>
void RotaryBackward(CudaStream& stream, const RotaryShape& shape, const T* dqkv,
                    const float* table, T* dq, T* dk, T* dv);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_ROTARY_H_
