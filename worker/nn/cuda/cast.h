// Casts between float and the types that a model computes in: of a whole arena,
// for a model's working copy of its parameters.
//
// Arrays have `count` elements and lie in device memory; they must not overlap.
// T is float, __nv_bfloat16 or __half.
// Guarantees: rounds to nearest, ties to even; a NaN stays NaN.
// Thread-safety: as CudaStream; errors are the stream's.
#ifndef RINGMASTER_WORKER_NN_CUDA_CAST_H_
#define RINGMASTER_WORKER_NN_CUDA_CAST_H_

#include <cstdint>

#include "worker/device/cuda/cuda_stream.h"

namespace ringmaster::cuda {

// y =. Values too large for __half become infinite.
template <typename T>
void CastFromFloat(CudaStream& stream, int64_t count, const float* x, T* y);

// y =
template <typename T>
void CastToFloat(CudaStream& stream, int64_t count, const T* x, float* y);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_CAST_H_
