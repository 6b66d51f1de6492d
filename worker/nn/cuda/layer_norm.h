// Layer normalization of the sum of a residual stream and a branch: what
// worker/nn/layer_norm.h says, on a GPU.
//
//   sum = x + drop(delta)
//   y = (sum - mean) * rstd * gamma + beta,  rstd = 1 / sqrt(variance + epsilon)
//
// Shapes: as there; all arrays lie in device memory, those of dropout_of_delta
// too. T, of activations, gamma and beta, is float, __nv_bfloat16 or __half;
// statistics and the gradients of gamma and beta are float. Outputs must not
// overlap inputs.
// Guarantees: mean and rstd are those of the sum as it is written, rounded to T.
// Sums are in float, in an order that depends on the shape alone. Fast where
// loads of 128 bits do (pointers and rows that 16 divides) and a block has a
// thread for each of a row's: of up to 8192 elements of 16 bits, 4096 floats.
// Thread-safety: as CudaStream; errors are the stream's.
#ifndef RINGMASTER_WORKER_NN_CUDA_LAYER_NORM_H_
#define RINGMASTER_WORKER_NN_CUDA_LAYER_NORM_H_

#include <cstdint>

#include "worker/device/cuda/cuda_stream.h"
#include "worker/nn/compute.h"
#include "worker/nn/cuda/device_dropout.h"
#include "worker/nn/layer_norm.h"

namespace ringmaster::cuda {

// sum =, y =, mean =, rstd =. If `mean` and `beta` are null, rows are not
// centred, as in worker/nn/layer_norm.h. With no delta (null) the sum is x
// itself, and `sum` is not used.
template <typename T>
void ResidualLayerNormForward(CudaStream& stream, RowShape shape, const T* x,
                              const T* delta,
                              const DeviceDropout& dropout_of_delta, T* sum,
                              const T* gamma, const T* beta, double epsilon,
                              T* y, float* mean, float* rstd);

// Elements of scratch that LayerNormBackward needs for this many rows or fewer.
int64_t LayerNormScratchElems(CudaStream& stream, RowShape shape);

// dsum +=, dgamma and dbeta = or +=; without centring `mean` and `dbeta` are
// null. `sum`, `mean` and `rstd` are forward's. Unless it is null, dsum_total
// [dim] = or += the sum of dsum's rows as they are written: where there is no
// dropout, the gradient of the bias of what was added.
template <typename T>
void LayerNormBackward(CudaStream& stream, RowShape shape, Write write,
                       const T* dy, const T* sum, const T* gamma,
                       const float* mean, const float* rstd, float* scratch,
                       T* dsum, float* dgamma, float* dbeta,
                       float* dsum_total = nullptr);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_LAYER_NORM_H_
