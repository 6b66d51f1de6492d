// The bias of a linear operator, added on its own: where no product could.
//
// Thread-safety: as CudaStream; errors are the stream's.
#ifndef RINGMASTER_WORKER_NN_CUDA_ADD_BIAS_H_
#define RINGMASTER_WORKER_NN_CUDA_ADD_BIAS_H_

#include <cstdint>

#include "worker/device/cuda/cuda_stream.h"

namespace ringmaster::cuda {

// y [rows,columns] += bias [columns], in device memory; rows of y begin `stride`
// elements apart. T is float, __nv_bfloat16 or __half.
template <typename T>
void AddBias(CudaStream& stream, int64_t rows, int64_t columns, int64_t stride,
             const T* bias, T* y);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_ADD_BIAS_H_
