#include "common/optimizer/sgd.h"

#include <cstdint>

#include "common/optimizer/stream_kernel.h"
#include "common/status/check.h"
#include "common/tensor/cpu_dispatch.h"

namespace ringmaster {
namespace {

template <typename T>
struct Coefficients {
  T gradient_scale;
  T decay;
  T momentum;
  T learning_rate;
};

// `old_p` and `old_m` are what the update reads; in place, `p` and `m`.
template <typename T>
RM_KERNEL T PlainUpdate(const Coefficients<T>& c, T old_p, T g) {
  const T gradient = c.gradient_scale * g + c.decay * old_p;
  return old_p - c.learning_rate * gradient;
}

template <typename T>
RM_KERNEL void PlainKernel(const Coefficients<T>* coefficients, T* __restrict p,
                           const T* __restrict g, int64_t count) {
  const Coefficients<T> c = *coefficients;
  const auto update = [=](int64_t i) __attribute__((always_inline)) {
    p[i] = PlainUpdate(c, p[i], g[i]);
  };
  ForEachStreamed<T>(count, update, p, g);
}

template <typename T>
RM_KERNEL void PlainCopyKernel(const Coefficients<T>* coefficients,
                               T* __restrict p, const T* __restrict g,
                               const T* __restrict old_p, int64_t count) {
  const Coefficients<T> c = *coefficients;
  const auto update = [=](int64_t i) __attribute__((always_inline)) {
    p[i] = PlainUpdate(c, old_p[i], g[i]);
  };
  ForEachStreamed<T>(count, update, p, g, old_p);
}

template <typename T, bool kNesterov>
RM_KERNEL void MomentumUpdate(const Coefficients<T>& c, T old_p, T old_m, T g,
                              T& p, T& m) {
  const T gradient = c.gradient_scale * g + c.decay * old_p;
  const T moment = c.momentum * old_m + gradient;
  m = moment;
  p = old_p -
      c.learning_rate * (kNesterov ? gradient + c.momentum * moment : moment);
}

template <typename T, bool kNesterov>
RM_KERNEL void MomentumKernel(const Coefficients<T>* coefficients,
                              T* __restrict p, const T* __restrict g,
                              T* __restrict m, int64_t count) {
  const Coefficients<T> c = *coefficients;
  const auto update = [=](int64_t i) __attribute__((always_inline)) {
    MomentumUpdate<T, kNesterov>(c, p[i], m[i], g[i], p[i], m[i]);
  };
  ForEachStreamed<T>(count, update, p, g, m);
}

template <typename T, bool kNesterov>
RM_KERNEL void MomentumCopyKernel(const Coefficients<T>* coefficients,
                                  T* __restrict p, const T* __restrict g,
                                  T* __restrict m, const T* __restrict old_p,
                                  const T* __restrict old_m, int64_t count) {
  const Coefficients<T> c = *coefficients;
  const auto update = [=](int64_t i) __attribute__((always_inline)) {
    MomentumUpdate<T, kNesterov>(c, old_p[i], old_m[i], g[i], p[i], m[i]);
  };
  ForEachStreamed<T>(count, update, p, g, m, old_p, old_m);
}

template <typename T>
void ApplyPlain(const Coefficients<T>& coefficients,
                const OptimizerSlice<T>& slice) {
  T* const p = slice.parameters.data();
  const T* const g = slice.gradients.data();
  const auto n = static_cast<int64_t>(slice.parameters.size());
  if (slice.is_in_place()) {
    CallOnCpu<PlainKernel<T>>(&coefficients, p, g, n);
  } else {
    CallOnCpu<PlainCopyKernel<T>>(&coefficients, p, g,
                                  slice.from.parameters.data(), n);
  }
}

template <typename T, bool kNesterov>
void ApplyMomentum(const Coefficients<T>& coefficients,
                   const OptimizerSlice<T>& slice) {
  const size_t count = slice.parameters.size();
  RM_CHECK(slice.first_moment.size() == count &&
               (slice.is_in_place() || slice.from.first_moment.size() == count),
           "the slices differ in length");
  T* const p = slice.parameters.data();
  const T* const g = slice.gradients.data();
  T* const m = slice.first_moment.data();
  const auto n = static_cast<int64_t>(count);
  if (slice.is_in_place()) {
    CallOnCpu<MomentumKernel<T, kNesterov>>(&coefficients, p, g, m, n);
  } else {
    CallOnCpu<MomentumCopyKernel<T, kNesterov>>(
        &coefficients, p, g, m, slice.from.parameters.data(),
        slice.from.first_moment.data(), n);
  }
}

}  // namespace

template <typename T>
void ApplySgd(const OptimizerConfig& config, const Update& update,
              const OptimizerSlice<T>& slice) {
  const size_t count = slice.parameters.size();
  RM_CHECK(slice.gradients.size() == count &&
               (slice.is_in_place() || slice.from.parameters.size() == count),
           "the slices differ in length");
  const Coefficients<T> coefficients = {
      .gradient_scale = static_cast<T>(update.gradient_scale),
      .decay = static_cast<T>(update.decays ? config.weight_decay : 0),
      .momentum = static_cast<T>(config.momentum),
      .learning_rate = static_cast<T>(update.learning_rate)};
  if (config.momentum == 0) {
    ApplyPlain(coefficients, slice);
  } else if (config.nesterov) {
    ApplyMomentum<T, true>(coefficients, slice);
  } else {
    ApplyMomentum<T, false>(coefficients, slice);
  }
}

template void ApplySgd<float>(const OptimizerConfig&, const Update&,
                              const OptimizerSlice<float>&);
template void ApplySgd<double>(const OptimizerConfig&, const Update&,
                               const OptimizerSlice<double>&);

}  // namespace ringmaster
