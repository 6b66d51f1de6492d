#include <cstdint>

#include "common/optimizer/adamw_coefficients.h"
#include "common/optimizer/optimizer.h"
#include "common/status/check.h"
#include "worker/nn/cuda/kernel_parts.cuh"
#include "worker/train/cuda/optimizer.h"

// Compiled without contraction to fused multiply-adds (BUILD).
namespace ringmaster::cuda {
namespace {

// Elements that a thread updates at once.
constexpr int kWidth = 4;

using Floats = Pack<kWidth, float>;

// The arrays that are read and written. In place, old_... are the same arrays.
struct Arrays {
  int64_t count;
  const float* gradients;
  const float* old_parameters;
  const float* old_first_moment;
  const float* old_second_moment;
  float* parameters;
  float* first_moment;   // or null
  float* second_moment;  // or null
};

struct Element {
  float parameter;
  float first_moment;
  float second_moment;
};

struct AdamW {
  AdamWCoefficients<float> c;

  __device__ Element operator()(Element old, float g) const {
    const float gradient = c.gradient_scale * g;
    const float first =
        c.beta1 * old.first_moment + c.one_minus_beta1 * gradient;
    const float second =
        c.beta2 * old.second_moment + c.one_minus_beta2 * gradient * gradient;
    const float parameter =
        old.parameter * c.decay -
        c.step_size * first / (sqrtf(second) * c.root_correction + c.epsilon);
    return {parameter, first, second};
  }
};

struct Sgd {
  float gradient_scale;
  float decay;
  float momentum;
  float learning_rate;
  bool nesterov;

  __device__ Element operator()(Element old, float g) const {
    const float gradient = gradient_scale * g + decay * old.parameter;
    // Its moment is written, if there is one.
    const float moment =
        momentum == 0 ? gradient : momentum * old.first_moment + gradient;
    const float step = nesterov ? gradient + momentum * moment : moment;
    return {old.parameter - learning_rate * step, moment, 0};
  }
};

template <bool kFirst, bool kSecond, typename Rule>
__device__ void UpdateElement(const Rule& rule, const Arrays& at, int64_t i) {
  const Element next =
      rule({at.old_parameters[i], kFirst ? at.old_first_moment[i] : 0.0f,
            kSecond ? at.old_second_moment[i] : 0.0f},
           at.gradients[i]);
  at.parameters[i] = next.parameter;
  if (kFirst) at.first_moment[i] = next.first_moment;
  if (kSecond) at.second_moment[i] = next.second_moment;
}

template <bool kFirst, bool kSecond, typename Rule>
__device__ void UpdatePack(const Rule& rule, const Arrays& at, int64_t i) {
  const Floats gradients = LoadPack<kWidth>(at.gradients + i);
  Floats parameters = LoadPack<kWidth>(at.old_parameters + i);
  Floats first = {};
  Floats second = {};
  if (kFirst) first = LoadPack<kWidth>(at.old_first_moment + i);
  if (kSecond) second = LoadPack<kWidth>(at.old_second_moment + i);
  for (int k = 0; k < kWidth; ++k) {
    const Element next =
        rule({parameters.elems[k], first.elems[k], second.elems[k]},
             gradients.elems[k]);
    parameters.elems[k] = next.parameter;
    first.elems[k] = next.first_moment;
    second.elems[k] = next.second_moment;
  }
  StorePack(parameters, at.parameters + i);
  if (kFirst) StorePack(first, at.first_moment + i);
  if (kSecond) StorePack(second, at.second_moment + i);
}

// kFirst and kSecond: which moments there are. One thread for kWidth elements,
// together if `is_packed`.
template <bool kFirst, bool kSecond, typename Rule>
__global__ void UpdateKernel(Rule rule, Arrays at, bool is_packed) {
  const int64_t i =
      (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kWidth;
  if (is_packed && i + kWidth <= at.count) {
    UpdatePack<kFirst, kSecond>(rule, at, i);
    return;
  }
  for (int k = 0; k < kWidth && i + k < at.count; ++k)
    UpdateElement<kFirst, kSecond>(rule, at, i + k);
}

template <bool kFirst, bool kSecond, typename Rule>
void Launch(CudaStream& stream, const char* what, const Rule& rule,
            const Arrays& at) {
  if (at.count == 0) return;  // a grid of 0 blocks is an error
  const bool is_packed =
      ArePacked(at.gradients, at.old_parameters, at.parameters) &&
      (!kFirst || ArePacked(at.old_first_moment, at.first_moment)) &&
      (!kSecond || ArePacked(at.old_second_moment, at.second_moment));
  const auto blocks =
      static_cast<unsigned>(CeilDivide(at.count, kWidth * kThreadsPerBlock));
  stream.Check(LaunchKernel(UpdateKernel<kFirst, kSecond, Rule>, dim3(blocks),
                            dim3(kThreadsPerBlock), 0, stream.get(), rule, at,
                            is_packed),
               what);
}

Arrays ArraysOf(const OptimizerSlice<float>& slice, int moments) {
  const size_t count = slice.parameters.size();
  const bool is_in_place = slice.is_in_place();
  const auto& from = slice.from;
  RM_CHECK(slice.gradients.size() == count &&
               (moments < 1 || slice.first_moment.size() == count) &&
               (moments < 2 || slice.second_moment.size() == count),
           "the slices differ in length");
  RM_CHECK(is_in_place || (from.parameters.size() == count &&
                           (moments < 1 || from.first_moment.size() == count) &&
                           (moments < 2 || from.second_moment.size() == count)),
           "what is read differs in length");
  return {static_cast<int64_t>(count),
          slice.gradients.data(),
          is_in_place ? slice.parameters.data() : from.parameters.data(),
          is_in_place ? slice.first_moment.data() : from.first_moment.data(),
          is_in_place ? slice.second_moment.data() : from.second_moment.data(),
          slice.parameters.data(),
          slice.first_moment.data(),
          slice.second_moment.data()};
}

Sgd SgdOf(const OptimizerConfig& config, const Update& update) {
  return {static_cast<float>(update.gradient_scale),
          static_cast<float>(update.decays ? config.weight_decay : 0),
          static_cast<float>(config.momentum),
          static_cast<float>(update.learning_rate), config.nesterov};
}

}  // namespace

void ApplyOptimizer(CudaStream& stream, const OptimizerConfig& config,
                    const Update& update, const OptimizerSlice<float>& slice) {
  if (update.tracking_rate != 0) {
    ApplyOptimizer(stream, TrackingConfig(), TrackingUpdate(update), slice);
    return;
  }
  if (config.kind == "adamw") {
    const AdamW rule = {AdamWCoefficientsOf<float>(config, update)};
    Launch<true, true>(stream, "adamw", rule, ArraysOf(slice, 2));
  } else if (config.momentum != 0) {
    Launch<true, false>(stream, "sgd", SgdOf(config, update),
                        ArraysOf(slice, 1));
  } else {
    Launch<false, false>(stream, "sgd", SgdOf(config, update),
                         ArraysOf(slice, 0));
  }
}

}  // namespace ringmaster::cuda
