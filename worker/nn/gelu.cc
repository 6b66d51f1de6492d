#include "worker/nn/gelu.h"

#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"
#include "worker/nn/fast_exp.h"

namespace ringmaster {
namespace {

// 1/2 (1 + tanh(u)) is the logistic function of 2u, so that one exponential
// does. This is 2 sqrt(2 / pi).
constexpr double kTwoRootTwoOverPi = 1.5957691216057308;
constexpr double kCubic = 0.044715;

// Elements that a thread takes at once.
constexpr int64_t kGrain = 16384;

template <typename T>
RM_KERNEL T Logistic(T x) {
  const T scale = static_cast<T>(kTwoRootTwoOverPi);
  const T two_u = scale * x * (T{1} + static_cast<T>(kCubic) * x * x);
  return T{1} / (T{1} + FastExp(-two_u));
}

template <typename T>
RM_KERNEL void ForwardKernel(int64_t count, const T* __restrict x,
                             T* __restrict y) {
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] * Logistic(x[i]);
}

// Beyond, the slope is 0 or 1 up to rounding, while its terms outgrow what
// FastExp leaves of the tail. NaN fails both comparisons.
template <typename T>
RM_KERNEL T Clamped(T x) {
  constexpr T kFlat = 10;
  x = x < -kFlat ? -kFlat : x;
  return x > kFlat ? kFlat : x;
}

template <typename T>
RM_KERNEL T Slope(T x) {
  x = Clamped(x);
  const T scale = static_cast<T>(kTwoRootTwoOverPi);
  const T three_cubic = static_cast<T>(3 * kCubic);
  const T s = Logistic(x);
  const T two_u_slope = scale * (T{1} + three_cubic * x * x);
  return s + x * s * (T{1} - s) * two_u_slope;
}

template <typename T>
RM_KERNEL void BackwardKernel(int64_t count, const T* __restrict x,
                              const T* __restrict dy, T* __restrict dx) {
  for (int64_t i = 0; i < count; ++i) dx[i] = dy[i] * Slope(x[i]);
}

template <typename T>
RM_KERNEL void BackwardInPlaceKernel(int64_t count, const T* __restrict x,
                                     T* __restrict dx) {
  for (int64_t i = 0; i < count; ++i) dx[i] *= Slope(x[i]);
}

}  // namespace

template <typename T>
void GeluForward(const Compute& compute, int64_t count, const T* x, T* y) {
  compute.pool.ParallelFor(count, kGrain, [&](int64_t begin, int64_t end) {
    CallOnCpuFma<ForwardKernel<T>>(end - begin, x + begin, y + begin);
  });
}

template <typename T>
void GeluBackward(const Compute& compute, int64_t count, const T* x,
                  const T* dy, T* dx) {
  compute.pool.ParallelFor(count, kGrain, [&](int64_t begin, int64_t end) {
    if (dx == dy) {
      CallOnCpuFma<BackwardInPlaceKernel<T>>(end - begin, x + begin,
                                             dx + begin);
    } else {
      CallOnCpuFma<BackwardKernel<T>>(end - begin, x + begin, dy + begin,
                                      dx + begin);
    }
  });
}

template void GeluForward<float>(const Compute&, int64_t, const float*, float*);
template void GeluForward<double>(const Compute&, int64_t, const double*,
                                  double*);
template void GeluBackward<float>(const Compute&, int64_t, const float*,
                                  const float*, float*);
template void GeluBackward<double>(const Compute&, int64_t, const double*,
                                   const double*, double*);

}  // namespace ringmaster
