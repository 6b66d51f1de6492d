#include "worker/nn/initialize.h"

#include <algorithm>
#include <cmath>

#include "common/plan/counter_random.h"
#include "common/status/check.h"
#include "xxhash.h"

namespace ringmaster {
namespace {

// The sum of the four 16-bit numbers in `bits`, shifted and scaled to mean 0
// and deviation 1 (Irwin and Hall's distribution): near enough to the normal one
// for a first parameter, and exact in integers, so that hosts with different
// mathematics libraries agree on every bit.
double NearNormal(uint64_t bits) {
  constexpr double kUniformVariance = (65536.0 * 65536.0 - 1) / 12;
  const uint64_t sum = (bits & 0xffff) + (bits >> 16 & 0xffff) +
                       (bits >> 32 & 0xffff) + (bits >> 48);
  static const double kDeviation = std::sqrt(4 * kUniformVariance);
  return (static_cast<double>(sum) - 2 * 65535.0) / kDeviation;
}

float ValueAt(const Initializer& init, uint64_t key, int64_t index) {
  if (init.kind == Initializer::Kind::kConstant)
    return static_cast<float>(init.value);
  if (init.kind == Initializer::Kind::kNormal) {
    return static_cast<float>(
        init.value *
        NearNormal(CounterRandom(key, static_cast<uint64_t>(index))));
  }
  const double unit =
      UnitInterval(CounterRandom(key, static_cast<uint64_t>(index)));
  return static_cast<float>(init.value * (2 * unit - 1));
}

}  // namespace

template <typename T>
void InitializeParameters(const Plan& plan, uint64_t seed,
                          absl::Span<T> parameters) {
  RM_CHECK(static_cast<int64_t>(parameters.size()) == plan.total_elems(),
           "the span is not the plan's");
  std::fill(parameters.begin(), parameters.end(), T{0});
  for (const PlannedTensor& tensor : plan.tensors()) {
    const std::string& name = tensor.spec.name;
    const uint64_t key =
        CounterRandom(seed, XXH3_64bits(name.data(), name.size()));
    T* const elems = parameters.data() + tensor.range.begin;
    for (int64_t i = 0; i < tensor.range.count; ++i)
      elems[i] = static_cast<T>(ValueAt(tensor.spec.init, key, i));
  }
}

template void InitializeParameters<float>(const Plan&, uint64_t,
                                          absl::Span<float>);
template void InitializeParameters<double>(const Plan&, uint64_t,
                                           absl::Span<double>);

}  // namespace ringmaster
