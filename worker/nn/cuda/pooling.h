// Max pooling of 2x2 pixels with stride 2 on a GPU: what worker/nn/pooling.h says.
//
// Shapes and meaning: as there; all arrays lie in device memory, outputs must not
// overlap inputs. T is float, __nv_bfloat16 or __half.
// Guarantees: no arithmetic, so the same values and winners as on a CPU. A NaN
// wins, so it is not hidden.
// Thread-safety: as CudaStream; errors are the stream's.
#ifndef RINGMASTER_WORKER_NN_CUDA_POOLING_H_
#define RINGMASTER_WORKER_NN_CUDA_POOLING_H_

#include <cstdint>

#include "worker/device/cuda/cuda_stream.h"
#include "worker/nn/pooling.h"

namespace ringmaster::cuda {

// y =, and `winners` = which pixel of the four it is, 0 to 3 line by line: the
// first of those that are largest.
template <typename T>
void MaxPoolForward(CudaStream& stream, const PoolingShape& shape, const T* x,
                    T* y, uint8_t* winners);

// dx =, zero for what won nothing.
template <typename T>
void MaxPoolBackward(CudaStream& stream, const PoolingShape& shape, const T* dy,
                     const uint8_t* winners, T* dx);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_POOLING_H_
