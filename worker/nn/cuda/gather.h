// Some rows of a matrix on a GPU: what worker/nn/gather.h computes, with the
// same shapes, in device memory. T is float, __nv_bfloat16 or __half.
//
// Thread-safety: as CudaStream; errors are the stream's.
#ifndef RINGMASTER_WORKER_NN_CUDA_GATHER_H_
#define RINGMASTER_WORKER_NN_CUDA_GATHER_H_

#include <cstdint>

#include "worker/device/cuda/cuda_stream.h"
#include "worker/nn/gather.h"

namespace ringmaster::cuda {

// y[i] = x[places[i]]
template <typename T>
void GatherForward(CudaStream& stream, GatherShape shape, const int32_t* places,
                   const T* x, T* y);

// dx[places[i]] = dy[i], and 0 elsewhere
template <typename T>
void GatherBackward(CudaStream& stream, GatherShape shape,
                    const int32_t* places, const T* dy, T* dx);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_GATHER_H_
