#include "common/optimizer/adamw.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "common/plan/counter_random.h"
#include "common/tensor/cpu_dispatch.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

// An update at the config's own learning rate.
template <typename T>
void Apply(const OptimizerConfig& config, int64_t step, double gradient_scale,
           const OptimizerSlice<T>& slice) {
  ApplyAdamW<T>(config,
                {.step = step,
                 .learning_rate = config.learning_rate,
                 .gradient_scale = gradient_scale},
                slice);
}

template <typename T>
struct State {
  explicit State(size_t count) : p(count), g(count), m(count), v(count) {}
  OptimizerSlice<T> Slice(size_t begin, size_t count) {
    return {absl::MakeSpan(p).subspan(begin, count),
            absl::MakeConstSpan(g).subspan(begin, count),
            absl::MakeSpan(m).subspan(begin, count),
            absl::MakeSpan(v).subspan(begin, count)};
  }
  OptimizerSlice<T> All() { return Slice(0, p.size()); }

  std::vector<T> p, g, m, v;
};

double Gradient(int64_t step, size_t i) {
  return 2 * UnitInterval(CounterRandom(step, i)) - 1;
}

template <typename T>
State<T> Start(size_t count) {
  State<T> state(count);
  for (size_t i = 0; i < count; ++i)
    state.p[i] = static_cast<T>(static_cast<float>(Gradient(99, i)));
  return state;
}

// The formula of the paper, one element at a time, in double and with pow().
void PlainAdamW(const OptimizerConfig& c, int64_t step, double scale,
                State<double>& s) {
  for (size_t i = 0; i < s.p.size(); ++i) {
    const double g = scale * s.g[i];
    s.m[i] = c.beta1 * s.m[i] + (1 - c.beta1) * g;
    s.v[i] = c.beta2 * s.v[i] + (1 - c.beta2) * g * g;
    const double m_hat = s.m[i] / (1 - std::pow(c.beta1, step));
    const double v_hat = s.v[i] / (1 - std::pow(c.beta2, step));
    s.p[i] -= c.learning_rate * c.weight_decay * s.p[i];
    s.p[i] -= c.learning_rate * m_hat / (std::sqrt(v_hat) + c.epsilon);
  }
}

template <typename T>
void ExpectFollowsThePlainFormula(double tolerance) {
  const OptimizerConfig config = {.learning_rate = 1e-2, .weight_decay = 0.1};
  constexpr size_t kCount = 1003;
  State<double> plain = Start<double>(kCount);
  State<T> fast = Start<T>(kCount);
  for (int64_t step = 1; step <= 50; ++step) {
    for (size_t i = 0; i < kCount; ++i) {
      fast.g[i] = static_cast<T>(Gradient(step, i));
      plain.g[i] = fast.g[i];
    }
    PlainAdamW(config, step, 0.5, plain);
    Apply<T>(config, step, 0.5, fast.All());
  }
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_NEAR(fast.p[i], plain.p[i], tolerance * (1 + std::abs(plain.p[i])))
        << "element " << i;
    ASSERT_NEAR(fast.v[i], plain.v[i], tolerance) << "element " << i;
  }
}

TEST(AdamWTest, FollowsThePlainFormulaInDouble) {
  ExpectFollowsThePlainFormula<double>(1e-14);
}

TEST(AdamWTest, FollowsThePlainFormulaInFloat) {
  ExpectFollowsThePlainFormula<float>(2e-6);
}

TEST(AdamWTest, ResultDoesNotDependOnHowTheArenaIsSliced) {
  constexpr size_t kCount = 517;
  State<float> whole = Start<float>(kCount);
  State<float> sliced = whole;
  for (int64_t step = 1; step <= 3; ++step) {
    for (size_t i = 0; i < kCount; ++i)
      whole.g[i] = sliced.g[i] = static_cast<float>(Gradient(step, i));
    Apply<float>({}, step, 1.0, whole.All());
    // Lengths that leave every remainder of a vector, at offsets that align
    // with nothing.
    for (size_t begin = 0, length = 1; begin < kCount; begin += length++) {
      Apply<float>({}, step, 1.0,
                   sliced.Slice(begin, std::min(length, kCount - begin)));
    }
  }
  EXPECT_EQ(
      std::memcmp(whole.p.data(), sliced.p.data(), kCount * sizeof(float)), 0);
  EXPECT_EQ(
      std::memcmp(whole.v.data(), sliced.v.data(), kCount * sizeof(float)), 0);
}

TEST(AdamWTest, ResultsAreTheSameOnEveryProcessor) {
  constexpr size_t kCount = 1003;
  State<float> baseline(0);
  for (CpuIsa isa : {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    const ScopedIsaCap cap(isa);
    State<float> state = Start<float>(kCount);
    for (int64_t step = 1; step <= 3; ++step) {
      for (size_t i = 0; i < kCount; ++i)
        state.g[i] = static_cast<float>(Gradient(step, i));
      Apply<float>({}, step, 0.7, state.All());
    }
    if (isa == CpuIsa::kBaseline) baseline = state;
    EXPECT_EQ(state.p, baseline.p) << CpuIsaName(isa);
    EXPECT_EQ(state.v, baseline.v) << CpuIsaName(isa);
  }
}

TEST(AdamWTest, TheUpdateSaysTheLearningRateAndWhetherWeightsDecay) {
  const OptimizerConfig config = {.learning_rate = 5, .weight_decay = 0.1};
  for (bool decays : {false, true}) {
    State<double> plain = Start<double>(10);
    State<double> fast = Start<double>(10);
    for (size_t i = 0; i < 10; ++i) plain.g[i] = fast.g[i] = Gradient(1, i);
    PlainAdamW({.learning_rate = 0.5, .weight_decay = decays ? 0.1 : 0}, 1, 1,
               plain);
    ApplyAdamW<double>(config,
                       {.step = 1, .learning_rate = 0.5, .decays = decays},
                       fast.All());
    for (size_t i = 0; i < 10; ++i) EXPECT_NEAR(fast.p[i], plain.p[i], 1e-14);
  }
}

TEST(AdamWTest, LeavesZeroPaddingZero) {
  State<float> state(64);
  for (int64_t step = 1; step <= 5; ++step)
    Apply<float>({.epsilon = 1e-30}, step, 1.0, state.All());
  for (float x : state.p) EXPECT_EQ(x, 0.0f);
  for (float x : state.v) EXPECT_EQ(x, 0.0f);
}

TEST(AdamWTest, DoesNotHideANanGradient) {
  State<float> state = Start<float>(20);
  state.g[7] = std::numeric_limits<float>::quiet_NaN();
  Apply<float>({}, 1, 1.0, state.All());
  for (size_t i = 0; i < 20; ++i)
    EXPECT_EQ(std::isnan(state.p[i]), i == 7) << "element " << i;
}

TEST(AdamWTest, DoesNothingToAnEmptySlice) {
  State<float> state(0);
  Apply<float>({}, 1, 1.0, state.All());
  EXPECT_TRUE(state.p.empty());
}

TEST(AdamWTest, BiasCorrectionHoldsAtAVeryLateStep) {
  State<double> late = Start<double>(4);
  const std::vector<double> before = late.p;
  for (double& g : late.g) g = 1;
  Apply<double>({.weight_decay = 0}, int64_t{1} << 40, 1.0, late.All());
  // Corrections are 1 by now: m = 0.1, v = 0.001.
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(before[i] - late.p[i], 1e-3 * 0.1 / std::sqrt(0.001), 1e-8);
}

}  // namespace
}  // namespace ringmaster
