#include "worker/nn/linear.h"

#include <algorithm>

#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"
#include "worker/nn/gelu.h"
#include "worker/nn/gemm.h"

namespace ringmaster {
namespace {

// Columns that a thread sums at once.
constexpr int64_t kBiasGrain = 256;

template <typename T>
RM_KERNEL void SumRowsKernel(const T* __restrict rows, int64_t row_count,
                             int64_t row_stride, int64_t columns,
                             T* __restrict sum) {
  for (int64_t row = 0; row < row_count; ++row) {
    for (int64_t i = 0; i < columns; ++i) sum[i] += rows[row * row_stride + i];
  }
}

Transpose If(bool is_transposed) {
  return is_transposed ? Transpose::kYes : Transpose::kNo;
}

}  // namespace

template <typename T>
void LinearForward(const Compute& compute, LinearShape shape, const T* x,
                   const T* weight, const T* bias, T* y) {
  Gemm<T>(compute, Transpose::kNo, If(shape.layout == WeightLayout::kOutIn),
          {shape.batch, shape.out, shape.in}, x, weight,
          {.c = y, .bias = bias});
}

template <typename T>
void LinearGeluForward(const Compute& compute, LinearShape shape, const T* x,
                       const T* weight, const T* bias, T* pre, T* y,
                       GeluForm form) {
  // One after the other. GELU on each block of `pre` as it is complete would
  // find it in the cache, but blocks are narrow, and their short rows cost more
  // than that saves: measured, a sixth of the whole against a tenth.
  LinearForward<T>(compute, shape, x, weight, bias, pre);
  GeluForward<T>(compute, shape.batch * shape.out, pre, y, form);
}

template <typename T>
void LinearBackwardInput(const Compute& compute, LinearShape shape, const T* dy,
                         const T* weight, T* dx, Write write) {
  Gemm<T>(compute, Transpose::kNo, If(shape.layout == WeightLayout::kInOut),
          {shape.batch, shape.in, shape.out}, dy, weight,
          {.c = dx, .write = write});
}

template <typename T>
void LinearGeluBackwardInput(const Compute& compute, LinearShape shape,
                             const T* dy, const T* weight, const T* pre,
                             T* dpre, GeluForm form) {
  LinearBackwardInput<T>(compute, shape, dy, weight, dpre);
  GeluBackward<T>(compute, shape.batch * shape.in, pre, dpre, dpre, form);
}

template <typename T>
void LinearBackwardWeight(const Compute& compute, LinearShape shape,
                          Write write, const T* dy, const T* x, T* dweight) {
  const GemmOutput<T> output = {.c = dweight, .write = write};
  if (shape.layout == WeightLayout::kOutIn) {
    Gemm<T>(compute, Transpose::kYes, Transpose::kNo,
            {shape.out, shape.in, shape.batch}, dy, x, output);
  } else {
    Gemm<T>(compute, Transpose::kYes, Transpose::kNo,
            {shape.in, shape.out, shape.batch}, x, dy, output);
  }
}

template <typename T>
void LinearBackwardBias(const Compute& compute, LinearShape shape, Write write,
                        const T* dy, T* dbias) {
  compute.pool.ParallelFor(
      shape.out, kBiasGrain, [&](int64_t begin, int64_t end) {
        if (write == Write::kSet) std::fill(dbias + begin, dbias + end, T{0});
        CallOnCpu<SumRowsKernel<T>>(dy + begin, shape.batch, shape.out,
                                    end - begin, dbias + begin);
      });
}

template <typename T>
void LinearBackwardParameters(const Compute& compute, LinearShape shape,
                              Write write, const T* dy, const T* x, T* dweight,
                              T* dbias) {
  LinearBackwardWeight<T>(compute, shape, write, dy, x, dweight);
  LinearBackwardBias<T>(compute, shape, write, dy, dbias);
}

#define RM_INSTANTIATE(T)                                                     \
  template void LinearForward<T>(const Compute&, LinearShape, const T*,       \
                                 const T*, const T*, T*);                     \
  template void LinearGeluForward<T>(const Compute&, LinearShape, const T*,   \
                                     const T*, const T*, T*, T*, GeluForm);   \
  template void LinearBackwardInput<T>(const Compute&, LinearShape, const T*, \
                                       const T*, T*, Write);                  \
  template void LinearBackwardWeight<T>(const Compute&, LinearShape, Write,   \
                                        const T*, const T*, T*);              \
  template void LinearBackwardBias<T>(const Compute&, LinearShape, Write,     \
                                      const T*, T*);                          \
  template void LinearGeluBackwardInput<T>(const Compute&, LinearShape,       \
                                           const T*, const T*, const T*, T*,  \
                                           GeluForm);                         \
  template void LinearBackwardParameters<T>(                                  \
      const Compute&, LinearShape, Write, const T*, const T*, T*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster
