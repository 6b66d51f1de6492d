#include "worker/nn/gelu.h"

#include <cmath>

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

// The normal distribution, P(X <= x): to 1e-7 (Abramowitz & Stegun, "Handbook
// of Mathematical Functions", 1964, 7.1.26), with one exponential.
RM_KERNEL float Normal(float x) {
  const float z = (x < 0 ? -x : x) * 0.70710678f;
  const float t = 1.0f / (1.0f + 0.3275911f * z);
  float p = 1.061405429f;
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const float tail = 0.5f * p * t * FastExp(-z * z);
  return x < 0 ? tail : 1.0f - tail;
}
RM_KERNEL double Normal(double x) {
  return 0.5 * std::erfc(x * -0.70710678118654752);
}

template <GeluForm kForm, typename T>
RM_KERNEL void ForwardKernel(int64_t count, const T* __restrict x,
                             T* __restrict y) {
  for (int64_t i = 0; i < count; ++i)
    y[i] = x[i] * (kForm == GeluForm::kErf ? Normal(x[i]) : Logistic(x[i]));
}

// Beyond, the slope is 0 or 1 up to rounding, while its terms outgrow what
// FastExp leaves of the tail. NaN fails both comparisons.
template <typename T>
RM_KERNEL T Clamped(T x) {
  constexpr T kFlat = 10;
  x = x < -kFlat ? -kFlat : x;
  return x > kFlat ? kFlat : x;
}

template <GeluForm kForm, typename T>
RM_KERNEL T Slope(T x) {
  x = Clamped(x);
  if constexpr (kForm == GeluForm::kErf) {
    const T density = static_cast<T>(0.39894228040143268);  // at 0
    return Normal(x) + x * density * FastExp(x * x * T{-0.5});
  }
  const T scale = static_cast<T>(kTwoRootTwoOverPi);
  const T three_cubic = static_cast<T>(3 * kCubic);
  const T s = Logistic(x);
  const T two_u_slope = scale * (T{1} + three_cubic * x * x);
  return s + x * s * (T{1} - s) * two_u_slope;
}

template <GeluForm kForm, typename T>
RM_KERNEL void BackwardKernel(int64_t count, const T* __restrict x,
                              const T* __restrict dy, T* __restrict dx) {
  for (int64_t i = 0; i < count; ++i) dx[i] = dy[i] * Slope<kForm>(x[i]);
}

template <GeluForm kForm, typename T>
RM_KERNEL void BackwardInPlaceKernel(int64_t count, const T* __restrict x,
                                     T* __restrict dx) {
  for (int64_t i = 0; i < count; ++i) dx[i] *= Slope<kForm>(x[i]);
}

template <GeluForm kForm, typename T>
void Forward(const Compute& compute, int64_t count, const T* x, T* y) {
  compute.pool.ParallelFor(count, kGrain, [&](int64_t begin, int64_t end) {
    CallOnCpuFma<ForwardKernel<kForm, T>>(end - begin, x + begin, y + begin);
  });
}

template <GeluForm kForm, typename T>
void Backward(const Compute& compute, int64_t count, const T* x, const T* dy,
              T* dx) {
  compute.pool.ParallelFor(count, kGrain, [&](int64_t begin, int64_t end) {
    if (dx == dy) {
      CallOnCpuFma<BackwardInPlaceKernel<kForm, T>>(end - begin, x + begin,
                                                    dx + begin);
    } else {
      CallOnCpuFma<BackwardKernel<kForm, T>>(end - begin, x + begin, dy + begin,
                                             dx + begin);
    }
  });
}

}  // namespace

template <typename T>
void GeluForward(const Compute& compute, int64_t count, const T* x, T* y,
                 GeluForm form) {
  if (form == GeluForm::kErf)
    return Forward<GeluForm::kErf>(compute, count, x, y);
  Forward<GeluForm::kTanh>(compute, count, x, y);
}

template <typename T>
void GeluBackward(const Compute& compute, int64_t count, const T* x,
                  const T* dy, T* dx, GeluForm form) {
  if (form == GeluForm::kErf)
    return Backward<GeluForm::kErf>(compute, count, x, dy, dx);
  Backward<GeluForm::kTanh>(compute, count, x, dy, dx);
}

#define RM_INSTANTIATE(T)                                                    \
  template void GeluForward<T>(const Compute&, int64_t, const T*, T*,        \
                               GeluForm);                                    \
  template void GeluBackward<T>(const Compute&, int64_t, const T*, const T*, \
                                T*, GeluForm);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster
