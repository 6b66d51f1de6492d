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
void LinearForward(const Compute& /*compute*/, LinearShape shape, const T* x,
                   const T* weight, const T* bias, T* y) {
  // The product is added to the bias, which saves a pass over y.
  for (int64_t row = 0; row < shape.batch; ++row)
    std::copy_n(bias, shape.out, y + row * shape.out);
  Gemm<T>(Transpose::kNo, Transpose::kYes, {shape.batch, shape.out, shape.in},
          1, x, weight, 1, y);
}

template <typename T>
void LinearBackwardInput(const Compute& /*compute*/, LinearShape shape,
                         const T* dy, const T* weight, T* dx) {
  Gemm<T>(Transpose::kNo, Transpose::kNo, {shape.batch, shape.in, shape.out}, 1,
          dy, weight, 0, dx);
}

template <typename T>
void LinearBackwardWeight(const Compute& /*compute*/, LinearShape shape,
                          Write write, const T* dy, const T* x, T* dweight) {
  Gemm<T>(Transpose::kYes, Transpose::kNo, {shape.out, shape.in, shape.batch},
          1, dy, x, write == Write::kAdd ? 1 : 0, dweight);
}

template <typename T>
void LinearBackwardBias(const Compute& /*compute*/, LinearShape shape,
                        Write write, const T* dy, T* dbias) {
  if (write == Write::kSet) std::fill_n(dbias, shape.out, T{0});
  CallOnCpu<SumRowsKernel<T>>(dy, shape.batch, shape.out, dbias);
}

#define RM_INSTANTIATE(T)                                                     \
  template void LinearForward<T>(const Compute&, LinearShape, const T*,       \
                                 const T*, const T*, T*);                     \
  template void LinearBackwardInput<T>(const Compute&, LinearShape, const T*, \
                                       const T*, T*);                         \
  template void LinearBackwardWeight<T>(const Compute&, LinearShape, Write,   \
                                        const T*, const T*, T*);              \
  template void LinearBackwardBias<T>(const Compute&, LinearShape, Write,     \
                                      const T*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster
