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

template <typename T>
RM_KERNEL void PlainKernel(const Coefficients<T>* coefficients, T* __restrict p,
                           const T* __restrict g, int64_t count) {
  const Coefficients<T> c = *coefficients;
  const auto update = [=](int64_t i) __attribute__((always_inline)) {
    const T gradient = c.gradient_scale * g[i] + c.decay * p[i];
    p[i] = p[i] - c.learning_rate * gradient;
  };
  ForEachStreamed<T>(count, update, p, g);
}

template <typename T, bool kNesterov>
RM_KERNEL void MomentumKernel(const Coefficients<T>* coefficients,
                              T* __restrict p, const T* __restrict g,
                              T* __restrict m, int64_t count) {
  const Coefficients<T> c = *coefficients;
  const auto update = [=](int64_t i) __attribute__((always_inline)) {
    const T gradient = c.gradient_scale * g[i] + c.decay * p[i];
    const T moment = c.momentum * m[i] + gradient;
    m[i] = moment;
    p[i] = p[i] - c.learning_rate *
                      (kNesterov ? gradient + c.momentum * moment : moment);
  };
  ForEachStreamed<T>(count, update, p, g, m);
}

}  // namespace

template <typename T>
void ApplySgd(const OptimizerConfig& config, const Update& update,
              const OptimizerSlice<T>& slice) {
  const size_t count = slice.parameters.size();
  RM_CHECK(slice.gradients.size() == count, "the slices differ in length");
  const Coefficients<T> coefficients = {
      .gradient_scale = static_cast<T>(update.gradient_scale),
      .decay = static_cast<T>(update.decays ? config.weight_decay : 0),
      .momentum = static_cast<T>(config.momentum),
      .learning_rate = static_cast<T>(update.learning_rate)};
  T* const p = slice.parameters.data();
  const T* const g = slice.gradients.data();
  T* const m = slice.first_moment.data();
  const auto n = static_cast<int64_t>(count);
  if (config.momentum == 0) {
    CallOnCpu<PlainKernel<T>>(&coefficients, p, g, n);
    return;
  }
  RM_CHECK(slice.first_moment.size() == count, "the slices differ in length");
  if (config.nesterov) {
    CallOnCpu<MomentumKernel<T, true>>(&coefficients, p, g, m, n);
  } else {
    CallOnCpu<MomentumKernel<T, false>>(&coefficients, p, g, m, n);
  }
}

template void ApplySgd<float>(const OptimizerConfig&, const Update&,
                              const OptimizerSlice<float>&);
template void ApplySgd<double>(const OptimizerConfig&, const Update&,
                               const OptimizerSlice<double>&);

}  // namespace ringmaster
