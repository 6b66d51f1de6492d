// The gradient of a bias on a GPU: the sums of the columns of its output's
// gradient, for where no product makes them on the way.
//
// Shapes: dy [rows,columns], whose rows begin `stride` elements apart, dbias
// [columns], all in device memory. T is float, __nv_bfloat16 or __half; sums are
// float.
// Guarantees: added up in an order that depends on the shape alone.
// Thread-safety: as CudaStream; errors are the stream's.
#ifndef RINGMASTER_WORKER_NN_CUDA_BIAS_H_
#define RINGMASTER_WORKER_NN_CUDA_BIAS_H_

#include <cstdint>

#include "worker/device/cuda/cuda_stream.h"
#include "worker/nn/compute.h"

namespace ringmaster::cuda {

// Elements of scratch that BiasBackward needs for this many rows or fewer.
int64_t BiasBackwardScratchElems(int64_t rows, int64_t columns);

// dbias = or +=
template <typename T>
void BiasBackward(CudaStream& stream, int64_t rows, int64_t columns,
                  int64_t stride, Write write, const T* dy, float* scratch,
                  float* dbias);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_BIAS_H_
