// Pooling on a GPU: what worker/nn/pooling.h says.
//
// Shapes and meaning: as there; all arrays lie in device memory, outputs must not
// overlap inputs. T is float, __nv_bfloat16 or __half.
// Guarantees: a maximum is no arithmetic, so values and winners are those of a
// CPU. A NaN wins, so it is not hidden.
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

// The same for 3x3.
template <typename T>
void MaxPool3Forward(CudaStream& stream, const PoolingShape& shape, const T* x,
                     T* y, uint8_t* winners);
template <typename T>
void MaxPool3Backward(CudaStream& stream, const PoolingShape& shape,
                      const T* dy, const uint8_t* winners, T* dx);

// The mean of all pixels, summed in float. y =, dx =
template <typename T>
void MeanPoolForward(CudaStream& stream, const PoolingShape& shape, const T* x,
                     T* y);
template <typename T>
void MeanPoolBackward(CudaStream& stream, const PoolingShape& shape,
                      const T* dy, T* dx);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_POOLING_H_
