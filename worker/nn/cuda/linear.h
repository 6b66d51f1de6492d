// The linear operator on a GPU: y = x * weight^T + bias, as worker/nn/linear.h
// has it.
//
// Shapes, all in device memory: x [batch,in], bias [out], y [batch,out]; weight
// [out,in] or [in,out], as its layout says; gradients have the shape of what they
// belong to. T is float, __nv_bfloat16 or __half; gradients of parameters are
// float. Outputs must not overlap inputs.
// Guarantees: the same result, to the bit, for each call with the same operands
// on one CudaCompute. Sums are in float.
// Thread-safety: as CudaCompute; errors are the stream's.
#ifndef RINGMASTER_WORKER_NN_CUDA_LINEAR_H_
#define RINGMASTER_WORKER_NN_CUDA_LINEAR_H_

#include <cstdint>

#include "worker/nn/compute.h"
#include "worker/nn/cuda/cuda_compute.h"
#include "worker/nn/linear.h"

namespace ringmaster::cuda {

// y =. `bias` may be null: none.
template <typename T>
void LinearForward(const CudaCompute& compute, LinearShape shape, const T* x,
                   const T* weight, const T* bias, T* y);

// The same, then GELU: pre = x * weight^T + bias, y = GELU(pre).
template <typename T>
void LinearGeluForward(const CudaCompute& compute, LinearShape shape,
                       const T* x, const T* weight, const T* bias, T* pre, T* y,
                       GeluForm form = GeluForm::kTanh);

// dx = or +=
template <typename T>
void LinearBackwardInput(const CudaCompute& compute, LinearShape shape,
                         const T* dy, const T* weight, T* dx,
                         Write write = Write::kSet);

// The same for an x that is GELU(pre), pre [batch,in]: dpre =
template <typename T>
void LinearGeluBackwardInput(const CudaCompute& compute, LinearShape shape,
                             const T* dy, const T* weight, const T* pre,
                             T* dpre, GeluForm form = GeluForm::kTanh);

// dweight = or +=
template <typename T>
void LinearBackwardWeight(const CudaCompute& compute, LinearShape shape,
                          Write write, const T* dy, const T* x, float* dweight);

// dbias = or +=. Rows of dy begin `dy_stride` elements apart; 0: shape.out.
template <typename T>
void LinearBackwardBias(const CudaCompute& compute, LinearShape shape,
                        Write write, const T* dy, float* dbias,
                        int64_t dy_stride = 0);

// Both: dweight and dbias = or +=
template <typename T>
void LinearBackwardParameters(const CudaCompute& compute, LinearShape shape,
                              Write write, const T* dy, const T* x,
                              float* dweight, float* dbias);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_LINEAR_H_
