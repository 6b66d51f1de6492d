// Two-dimensional convolution without a bias on a GPU, with any stride, as
// worker/nn/strided_conv.h has it.
//
// One product of matrices where the kernel is one pixel and the stride 1. Else
// the weight is turned to have its channels innermost, and cuDNN convolves where
// CudaCompute has it and it can; elsewhere products with a matrix of patches
// (patches.h), of which as many are made at a time as there is scratch. The
// gradient of the input is the convolution of the output's gradient, spread by
// the stride, with the weight turned around.
//
// All arrays lie in device memory. T is float, __nv_bfloat16 or __half; gradients
// of parameters are float. Outputs must not overlap inputs.
// Guarantees: the same result, to the bit, for each call with the same operands,
// scratch of the same size and one CudaCompute.
// Thread-safety: as CudaCompute; errors are the stream's.
#ifndef RINGMASTER_WORKER_NN_CUDA_STRIDED_CONV_H_
#define RINGMASTER_WORKER_NN_CUDA_STRIDED_CONV_H_

#include <cstdint>

#include "worker/nn/compute.h"
#include "worker/nn/cuda/cuda_compute.h"
#include "worker/nn/strided_conv.h"

namespace ringmaster::cuda {

// Elements of scratch with which each operator below is fast, for this batch or
// a smaller one.
int64_t StridedConvScratchElems(const CudaCompute& compute,
                                const StridedConvShape& shape);

template <typename T>
void StridedConvForward(const CudaCompute& compute,
                        const StridedConvShape& shape, const T* x,
                        const T* weight, StridedConvScratch<T> scratch, T* y);

template <typename T>
void StridedConvBackwardInput(const CudaCompute& compute,
                              const StridedConvShape& shape, const T* dy,
                              const T* weight, StridedConvScratch<T> scratch,
                              Write write, T* dx);

template <typename T>
void StridedConvBackwardWeight(const CudaCompute& compute,
                               const StridedConvShape& shape, Write write,
                               const T* dy, const T* x,
                               StridedConvScratch<T> scratch, float* dweight);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_STRIDED_CONV_H_
