// FillZero: x [count], in device memory, = 0; see worker/nn/fill_zero.h.
#ifndef RINGMASTER_WORKER_NN_CUDA_FILL_ZERO_H_
#define RINGMASTER_WORKER_NN_CUDA_FILL_ZERO_H_

#include <cstdint>

#include "worker/device/cuda/cuda_stream.h"

namespace ringmaster::cuda {

template <typename T>
void FillZero(CudaStream& stream, int64_t count, T* x) {
  stream.FillZero(x, count * static_cast<int64_t>(sizeof(T)));
}

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_FILL_ZERO_H_
