#include "worker/nn/cuda/linear.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>

#include "worker/nn/cuda/activations.h"
#include "worker/nn/cuda/bias.h"

namespace ringmaster::cuda {
namespace {

Transpose If(bool is_transposed) {
  return is_transposed ? Transpose::kYes : Transpose::kNo;
}

MatmulShape ForwardShape(LinearShape shape) {
  return {.transpose_a = Transpose::kNo,
          .transpose_b = If(shape.layout == WeightLayout::kOutIn),
          .size = {shape.batch, shape.out, shape.in}};
}

MatmulShape BackwardInputShape(LinearShape shape) {
  return {.transpose_a = Transpose::kNo,
          .transpose_b = If(shape.layout == WeightLayout::kInOut),
          .size = {shape.batch, shape.in, shape.out}};
}

MatmulShape BackwardWeightShape(LinearShape shape) {
  return {.transpose_a = Transpose::kYes,
          .transpose_b = Transpose::kNo,
          .size = shape.layout == WeightLayout::kOutIn
                      ? GemmShape{shape.out, shape.in, shape.batch}
                      : GemmShape{shape.in, shape.out, shape.batch}};
}

}  // namespace

template <typename T>
void LinearForward(const CudaCompute& compute, LinearShape shape, const T* x,
                   const T* weight, const T* bias, T* y) {
  compute.matmul.Multiply<T>(ForwardShape(shape), x, weight,
                             {.c = y, .bias = bias});
}

template <typename T>
void LinearGeluForward(const CudaCompute& compute, LinearShape shape,
                       const T* x, const T* weight, const T* bias, T* pre, T* y,
                       GeluForm form) {
  if (form == GeluForm::kErf) {  // which cuBLASLt does not have
    LinearForward<T>(compute, shape, x, weight, bias, pre);
    GeluForward<T>(compute.stream, shape.batch * shape.out, pre, y, form);
    return;
  }
  compute.matmul.Multiply<T>(ForwardShape(shape), x, weight,
                             {.c = y, .bias = bias, .pre = pre});
}

template <typename T>
void LinearBackwardInput(const CudaCompute& compute, LinearShape shape,
                         const T* dy, const T* weight, T* dx, Write write) {
  compute.matmul.Multiply<T>(BackwardInputShape(shape), dy, weight,
                             {.c = dx, .write = write});
}

template <typename T>
void LinearGeluBackwardInput(const CudaCompute& compute, LinearShape shape,
                             const T* dy, const T* weight, const T* pre,
                             T* dpre, GeluForm form) {
  if (form == GeluForm::kErf) {
    LinearBackwardInput<T>(compute, shape, dy, weight, dpre, Write::kSet);
    GeluBackward<T>(compute.stream, shape.batch * shape.in, pre, dpre, dpre,
                    form);
    return;
  }
  compute.matmul.Multiply<T>(BackwardInputShape(shape), dy, weight,
                             {.c = dpre, .gelu_input = pre});
}

template <typename T>
void LinearBackwardWeight(const CudaCompute& compute, LinearShape shape,
                          Write write, const T* dy, const T* x,
                          float* dweight) {
  const bool is_out_in = shape.layout == WeightLayout::kOutIn;
  compute.matmul.MultiplyToFloat<T>(BackwardWeightShape(shape),
                                    is_out_in ? dy : x, is_out_in ? x : dy,
                                    write, dweight);
}

template <typename T>
void LinearBackwardBias(const CudaCompute& compute, LinearShape shape,
                        Write write, const T* dy, float* dbias,
                        int64_t dy_stride) {
  const int64_t stride = dy_stride == 0 ? shape.out : dy_stride;
  const MatmulScratch scratch = compute.matmul.scratch();
  // As many rows at a time as there is scratch for their sums; one of no rows.
  int64_t most = std::max<int64_t>(1, shape.batch);
  while (most > 1 && BiasBackwardScratchElems(most, shape.out) > scratch.elems)
    most = (most + 1) / 2;
  for (int64_t begin = 0; begin < std::max<int64_t>(1, shape.batch);
       begin += most) {
    BiasBackward<T>(compute.stream, std::min(most, shape.batch - begin),
                    shape.out, stride, begin == 0 ? write : Write::kAdd,
                    dy + begin * stride, scratch.data, dbias);
  }
}

template <typename T>
void LinearBackwardParameters(const CudaCompute& compute, LinearShape shape,
                              Write write, const T* dy, const T* x,
                              float* dweight, float* dbias) {
  const auto apart = [&] {
    LinearBackwardWeight<T>(compute, shape, write, dy, x, dweight);
    LinearBackwardBias<T>(compute, shape, write, dy, dbias);
  };
  if (write == Write::kAdd) return apart();
  const bool is_out_in = shape.layout == WeightLayout::kOutIn;
  compute.matmul.MultiplyWithSums<T>(
      BackwardWeightShape(shape), is_out_in ? dy : x, is_out_in ? x : dy,
      is_out_in ? dbias : nullptr, is_out_in ? nullptr : dbias, dweight, apart);
}

#define RM_INSTANTIATE(T)                                                      \
  template void LinearForward<T>(const CudaCompute&, LinearShape, const T*,    \
                                 const T*, const T*, T*);                      \
  template void LinearGeluForward<T>(const CudaCompute&, LinearShape,          \
                                     const T*, const T*, const T*, T*, T*,     \
                                     GeluForm);                                \
  template void LinearBackwardInput<T>(const CudaCompute&, LinearShape,        \
                                       const T*, const T*, T*, Write);         \
  template void LinearGeluBackwardInput<T>(const CudaCompute&, LinearShape,    \
                                           const T*, const T*, const T*, T*,   \
                                           GeluForm);                          \
  template void LinearBackwardWeight<T>(const CudaCompute&, LinearShape,       \
                                        Write, const T*, const T*, float*);    \
  template void LinearBackwardBias<T>(const CudaCompute&, LinearShape, Write,  \
                                      const T*, float*, int64_t);              \
  template void LinearBackwardParameters<T>(const CudaCompute&, LinearShape,   \
                                            Write, const T*, const T*, float*, \
                                            float*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
