#include "worker/nn/linear.h"

#include <algorithm>

#include "common/tensor/cpu_dispatch.h"
#include "worker/nn/gemm.h"

namespace ringmaster {
namespace {

template <typename T>
RM_KERNEL void SumRowsKernel(const T* __restrict rows, int64_t row_count,
                             int64_t row_size, T* __restrict sum) {
  for (int64_t row = 0; row < row_count; ++row) {
    for (int64_t i = 0; i < row_size; ++i) sum[i] += rows[row * row_size + i];
  }
}

}  // namespace

template <typename T>
void LinearForward(LinearShape shape, const T* x, const T* weight,
                   const T* bias, T* y) {
  // The product is added to the bias, which saves a pass over y.
  for (int64_t row = 0; row < shape.batch; ++row)
    std::copy_n(bias, shape.out, y + row * shape.out);
  Gemm<T>(Transpose::kNo, Transpose::kYes, {shape.batch, shape.out, shape.in},
          1, x, weight, 1, y);
}

template <typename T>
void LinearBackwardInput(LinearShape shape, const T* dy, const T* weight,
                         T* dx) {
  Gemm<T>(Transpose::kNo, Transpose::kNo, {shape.batch, shape.in, shape.out}, 1,
          dy, weight, 0, dx);
}

template <typename T>
void LinearBackwardWeight(LinearShape shape, const T* dy, const T* x,
                          T* dweight) {
  Gemm<T>(Transpose::kYes, Transpose::kNo, {shape.out, shape.in, shape.batch},
          1, dy, x, 0, dweight);
}

template <typename T>
void LinearBackwardBias(LinearShape shape, const T* dy, T* dbias) {
  std::fill_n(dbias, shape.out, T{0});
  CallOnCpu<SumRowsKernel<T>>(dy, shape.batch, shape.out, dbias);
}

#define RM_INSTANTIATE(T)                                                     \
  template void LinearForward<T>(LinearShape, const T*, const T*, const T*,   \
                                 T*);                                         \
  template void LinearBackwardInput<T>(LinearShape, const T*, const T*, T*);  \
  template void LinearBackwardWeight<T>(LinearShape, const T*, const T*, T*); \
  template void LinearBackwardBias<T>(LinearShape, const T*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster
