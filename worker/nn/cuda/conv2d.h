// Two-dimensional convolution on a GPU, with stride 1 and a border of zeros that
// keeps an image's size, as worker/nn/conv2d.h has it.
//
// By cuDNN where CudaCompute has it and it can; elsewhere as products of
// matrices: a row of patches for each pixel of the output, times the weight.
// Patches are made for as many pixels at a time as there is scratch. The gradient
// of the input is the convolution of the output's gradient with the weight turned
// around.
//
// Shapes, all in device memory: x [batch,height,width,in] and y
// [batch,height,width,out], channels innermost; weight [out,kernel,kernel,in];
// bias [out]; gradients have the shape of what they belong to. T is float,
// __nv_bfloat16 or __half; gradients of parameters are float. Outputs must not
// overlap inputs. A weight that is not finite may show as NaN along the border
// too.
// Guarantees: the same result, to the bit, for each call with the same operands,
// scratch of the same size and one CudaCompute.
// Thread-safety: as CudaCompute; errors are the stream's.
#ifndef RINGMASTER_WORKER_NN_CUDA_CONV2D_H_
#define RINGMASTER_WORKER_NN_CUDA_CONV2D_H_

#include <cstdint>

#include "worker/nn/compute.h"
#include "worker/nn/conv2d.h"
#include "worker/nn/cuda/cuda_compute.h"

namespace ringmaster::cuda {

// Elements of scratch with which each operator below is fast, for this batch or
// a smaller one, and with which it works at all.
int64_t Conv2dScratchElems(const CudaCompute& compute,
                           const Conv2dShape& shape);
int64_t LeastConv2dScratchElems(const Conv2dShape& shape);

// y =
template <typename T>
void Conv2dForward(const CudaCompute& compute, const Conv2dShape& shape,
                   const T* x, const T* weight, const T* bias,
                   Conv2dScratch<T> scratch, T* y);

// dx =
template <typename T>
void Conv2dBackwardInput(const CudaCompute& compute, const Conv2dShape& shape,
                         const T* dy, const T* weight, Conv2dScratch<T> scratch,
                         T* dx);

// dweight and dbias = or +=
template <typename T>
void Conv2dBackwardParameters(const CudaCompute& compute,
                              const Conv2dShape& shape, Write write,
                              const T* dy, const T* x, Conv2dScratch<T> scratch,
                              float* dweight, float* dbias);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_CONV2D_H_
