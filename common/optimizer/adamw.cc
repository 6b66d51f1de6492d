#include "common/optimizer/adamw.h"

#include <cmath>

#include "common/optimizer/adamw_coefficients.h"
#include "common/optimizer/stream_kernel.h"
#include "common/status/check.h"
#include "common/tensor/cpu_dispatch.h"

namespace ringmaster {
namespace {

// base^exponent by squaring: multiplications only, because pow() may differ in
// its last bit from one C library or processor to the next, and ranks must not.
double IntegerPower(double base, int64_t exponent) {
  double power = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) power *= base;
    base *= base;
  }
  return power;
}

// One division and one square root per element: memory is the limit, not they.
template <typename T>
RM_KERNEL void UpdateElement(const AdamWCoefficients<T>& c, T old_p, T old_m,
                             T old_v, T g, T& p, T& m, T& v) {
  const T gradient = c.gradient_scale * g;
  const T first = c.beta1 * old_m + c.one_minus_beta1 * gradient;
  const T second = c.beta2 * old_v + c.one_minus_beta2 * gradient * gradient;
  m = first;
  v = second;
  p = old_p * c.decay -
      c.step_size * first / (std::sqrt(second) * c.root_correction + c.epsilon);
}

template <typename T>
RM_KERNEL void AdamWKernel(const AdamWCoefficients<T>* coefficients,
                           T* __restrict p, const T* __restrict g,
                           T* __restrict m, T* __restrict v, int64_t count) {
  const AdamWCoefficients<T> c = *coefficients;
  const auto update = [=](int64_t i) __attribute__((always_inline)) {
    UpdateElement(c, p[i], m[i], v[i], g[i], p[i], m[i], v[i]);
  };
  ForEachStreamed<T>(count, update, p, g, m, v);
}

// Reads old_p, old_m and old_v in place of what it writes.
template <typename T>
RM_KERNEL void AdamWCopyKernel(const AdamWCoefficients<T>* coefficients,
                               T* __restrict p, const T* __restrict g,
                               T* __restrict m, T* __restrict v,
                               const T* __restrict old_p,
                               const T* __restrict old_m,
                               const T* __restrict old_v, int64_t count) {
  const AdamWCoefficients<T> c = *coefficients;
  const auto update = [=](int64_t i) __attribute__((always_inline)) {
    UpdateElement(c, old_p[i], old_m[i], old_v[i], g[i], p[i], m[i], v[i]);
  };
  ForEachStreamed<T>(count, update, p, g, m, v, old_p, old_m, old_v);
}

}  // namespace

template <typename T>
AdamWCoefficients<T> AdamWCoefficientsOf(const OptimizerConfig& config,
                                         const Update& update) {
  RM_CHECK(update.step >= 1, "steps count from 1");
  const double weight_decay = update.decays ? config.weight_decay : 0;
  AdamWCoefficients<T> c;
  c.gradient_scale = static_cast<T>(update.gradient_scale);
  c.beta1 = static_cast<T>(config.beta1);
  c.one_minus_beta1 = static_cast<T>(1 - config.beta1);
  c.beta2 = static_cast<T>(config.beta2);
  c.one_minus_beta2 = static_cast<T>(1 - config.beta2);
  c.decay = static_cast<T>(1 - update.learning_rate * weight_decay);
  c.step_size = static_cast<T>(update.learning_rate /
                               (1 - IntegerPower(config.beta1, update.step)));
  c.root_correction = static_cast<T>(
      1 / std::sqrt(1 - IntegerPower(config.beta2, update.step)));
  c.epsilon = static_cast<T>(config.epsilon);
  return c;
}

template <typename T>
void ApplyAdamW(const OptimizerConfig& config, const Update& update,
                const OptimizerSlice<T>& slice) {
  const size_t count = slice.parameters.size();
  RM_CHECK(slice.gradients.size() == count &&
               slice.first_moment.size() == count &&
               slice.second_moment.size() == count,
           "the four slices differ in length");
  const AdamWCoefficients<T> coefficients =
      AdamWCoefficientsOf<T>(config, update);
  T* const p = slice.parameters.data();
  const T* const g = slice.gradients.data();
  T* const m = slice.first_moment.data();
  T* const v = slice.second_moment.data();
  const auto n = static_cast<int64_t>(count);
  if (slice.is_in_place()) {
    CallOnCpu<AdamWKernel<T>>(&coefficients, p, g, m, v, n);
    return;
  }
  RM_CHECK(slice.from.parameters.size() == count &&
               slice.from.first_moment.size() == count &&
               slice.from.second_moment.size() == count,
           "what is read differs in length");
  CallOnCpu<AdamWCopyKernel<T>>(
      &coefficients, p, g, m, v, slice.from.parameters.data(),
      slice.from.first_moment.data(), slice.from.second_moment.data(), n);
}

template AdamWCoefficients<float> AdamWCoefficientsOf<float>(
    const OptimizerConfig&, const Update&);
template AdamWCoefficients<double> AdamWCoefficientsOf<double>(
    const OptimizerConfig&, const Update&);
template void ApplyAdamW<float>(const OptimizerConfig&, const Update&,
                                const OptimizerSlice<float>&);
template void ApplyAdamW<double>(const OptimizerConfig&, const Update&,
                                 const OptimizerSlice<double>&);

}  // namespace ringmaster
