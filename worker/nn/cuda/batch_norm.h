// Batch normalization on a GPU, as worker/nn/batch_norm.h says.
//
// All arrays lie in device memory. T is float, __nv_bfloat16 or __half, of
// activations, gamma and beta; statistics and gradients of parameters are float,
// and so is all that is computed.
// Guarantees: the same result, to the bit, for each call with the same operands:
// sums have an order that depends on the shape alone.
// Thread-safety: as CudaStream; errors are the stream's.
#ifndef RINGMASTER_WORKER_NN_CUDA_BATCH_NORM_H_
#define RINGMASTER_WORKER_NN_CUDA_BATCH_NORM_H_

#include <cstdint>

#include "worker/device/cuda/cuda_stream.h"
#include "worker/nn/batch_norm.h"
#include "worker/nn/compute.h"
#include "worker/nn/cuda/softmax_cross_entropy.h"

namespace ringmaster::cuda {

// Floats, for this batch or a smaller one.
int64_t BatchNormScratchElems(const CudaStream& stream,
                              const BatchNormShape& shape);

template <typename T>
void BatchNormForward(CudaStream& stream, const BatchNormShape& shape,
                      const T* x, const T* gamma, const T* beta,
                      const BatchNormNext<T>& next, float* scratch, T* y,
                      float* mean, float* variance);

template <typename T>
void BatchNormPredict(CudaStream& stream, const BatchNormShape& shape,
                      const T* x, const T* gamma, const T* beta,
                      const float* running_mean, const float* running_variance,
                      const BatchNormNext<T>& next, float* scratch, T* y);

// `terms` lies in device memory; T is float.
template <typename T>
void BatchNormTrack(CudaStream& stream, const BatchNormShape& shape,
                    const DeviceLossTerms* terms, Write write,
                    const float* mean, const float* variance,
                    const float* running_mean, const float* running_variance,
                    float* dmean, float* dvariance);

template <typename T>
void BatchNormBackward(CudaStream& stream, const BatchNormShape& shape,
                       Write write, const T* dy, const T* y, const T* x,
                       const T* gamma, const float* mean, const float* variance,
                       float* scratch, T* dx, float* dgamma, float* dbeta,
                       T* dbranch);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_BATCH_NORM_H_
