// Activations on a GPU: GELU and the rectifier as worker/nn/gelu.h and
// worker/nn/relu.h say, dropout on its own as worker/nn/dropout.h does, and what
// a model makes of pixels.
//
// All arrays lie in device memory and have `count` elements unless said
// otherwise. T is float, __nv_bfloat16 or __half; computed in float, rounded to
// T once. Outputs must not overlap inputs, except as the same array where it
// says so.
// Guarantees: a NaN stays NaN.
// Thread-safety: as CudaStream; errors are the stream's.
#ifndef RINGMASTER_WORKER_NN_CUDA_ACTIVATIONS_H_
#define RINGMASTER_WORKER_NN_CUDA_ACTIVATIONS_H_

#include <cstdint>

#include "worker/device/cuda/cuda_stream.h"
#include "worker/nn/compute.h"
#include "worker/nn/cuda/device_dropout.h"
#include "worker/nn/pixels.h"

namespace ringmaster::cuda {

// y =
template <typename T>
void GeluForward(CudaStream& stream, int64_t count, const T* x, T* y,
                 GeluForm form = GeluForm::kTanh);

// dx =. `x` is forward's input; dx may be dy.
template <typename T>
void GeluBackward(CudaStream& stream, int64_t count, const T* x, const T* dy,
                  T* dx, GeluForm form = GeluForm::kTanh);

// As worker/nn/swiglu.h. y =
template <typename T>
void SwiGluForward(CudaStream& stream, int64_t count, const T* gate,
                   const T* up, T* y);

// dgate =, dup =; dgate may be dy.
template <typename T>
void SwiGluBackward(CudaStream& stream, int64_t count, const T* gate,
                    const T* up, const T* dy, T* dgate, T* dup);

// As worker/nn/tanh.h. x = tanh(x)
template <typename T>
void TanhForward(CudaStream& stream, int64_t count, T* x);

// dx =. `y` is what forward left; dx may be dy.
template <typename T>
void TanhBackward(CudaStream& stream, int64_t count, const T* y, const T* dy,
                  T* dx);

// x = max(x, 0)
template <typename T>
void ReluForward(CudaStream& stream, int64_t count, T* x);

// dx =. `y` is what forward left; dx may be dy.
template <typename T>
void ReluBackward(CudaStream& stream, int64_t count, const T* y, const T* dy,
                  T* dx);

// y = x where kept, divided by 1 - rate, and 0 elsewhere: the elements that a CPU
// keeps. x and y are [samples, dropout.elems_per_sample], and may be the same
// array; what `dropout` points to lies in device memory.
template <typename T>
void ApplyDropout(CudaStream& stream, const DeviceDropout& dropout,
                  int64_t samples, const T* x, T* y);

// y = pixels / 255
template <typename T>
void PixelsForward(CudaStream& stream, int64_t count, const uint8_t* pixels,
                   T* y);

// As worker/nn/pixels.h. y =
template <typename T>
void NormalizePixels(CudaStream& stream, int64_t pixels,
                     const PixelScales& scales, const uint8_t* bytes, T* y);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_ACTIVATIONS_H_
