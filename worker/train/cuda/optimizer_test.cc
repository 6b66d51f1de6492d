#include "worker/train/cuda/optimizer.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/optimizer_config.h"
#include "common/optimizer/update.h"
#include "gtest/gtest.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/testing/operator_testing.h"

namespace ringmaster::cuda {
namespace {

// Parameters and moments; a moment that the optimizer does not have is empty.
struct State {
  std::vector<float> parameters, first, second;
  friend bool operator==(const State&, const State&) = default;
};

State RandomState(int64_t count, int moments) {
  State state;
  state.parameters = Random<float>(count, 1);
  if (moments >= 1) state.first = Random<float>(count, 2, 0.1);
  if (moments >= 2) {
    state.second = Random<float>(count, 3, 0.01);
    for (float& value : state.second) value = std::abs(value);
  }
  return state;
}

// Very different ones, some so small that their squares are denormal.
std::vector<float> Gradients(int64_t count, int step) {
  std::vector<float> gradients = Random<float>(count, 10 + step);
  for (size_t i = 0; i < gradients.size(); ++i)
    gradients[i] *= std::pow(10.0f, -static_cast<float>(i % 23));
  return gradients;
}

OptimizerConfig AdamW() {
  return {.beta1 = 0.9, .beta2 = 0.95, .weight_decay = 0.1};
}
OptimizerConfig Sgd(double momentum, bool nesterov) {
  return {.kind = "sgd",
          .momentum = momentum,
          .nesterov = nesterov,
          .weight_decay = 0.1};
}

Update UpdateAt(int step) {
  return {.step = step,
          .learning_rate = 1e-2 / step,
          .gradient_scale = 0.37,
          .decays = step % 2 == 1,
          // Once as running statistics.
          .tracking_rate = step == 3 ? 0.1 : 0,
          .statistic_scale = 0.5};
}

class OptimizerTest : public DeviceTest,
                      public ::testing::WithParamInterface<OptimizerConfig> {
 protected:
  static constexpr int kSteps = 4;

  State OnCpu(int64_t count) {
    State state = RandomState(count, MomentsOf(GetParam()));
    for (int step = 1; step <= kSteps; ++step) {
      const std::vector<float> gradients = Gradients(count, step);
      ringmaster::ApplyOptimizer<float>(
          GetParam(), UpdateAt(step),
          {absl::MakeSpan(state.parameters), gradients,
           absl::MakeSpan(state.first), absl::MakeSpan(state.second)});
    }
    return state;
  }

  // Returns `count` elements of `array` from `begin` on.
  static absl::Span<float> Part(const DeviceArray<float>& array, bool is_there,
                                int64_t begin, int64_t count) {
    if (!is_there) return {};
    return {array.get() + begin, static_cast<size_t>(count)};
  }

  State Run(int64_t count, int64_t offset, int64_t cut) {
    const int moments = MomentsOf(GetParam());
    const State before = RandomState(count, moments);
    const DeviceArray<float> p(before.parameters, offset);
    const DeviceArray<float> m(before.first, offset);
    const DeviceArray<float> v(before.second, offset);
    for (int step = 1; step <= kSteps; ++step) {
      const DeviceArray<float> g(Gradients(count, step), offset);
      const auto apply = [&](int64_t begin, int64_t elems) {
        ApplyOptimizer(
            stream(), GetParam(), UpdateAt(step),
            {Part(p, true, begin, elems), Part(g, true, begin, elems),
             Part(m, moments >= 1, begin, elems),
             Part(v, moments >= 2, begin, elems)});
      };
      apply(0, cut);
      apply(cut, count - cut);
      EXPECT_TRUE(Finish());
    }
    return {p.Read(), m.Read(), v.Read()};
  }
};

TEST_P(OptimizerTest, GivesTheBitsOfACpu) {
  for (int64_t count : {0, 1, 4, 1023, 3000}) {
    EXPECT_EQ(Run(count, 0, 0), OnCpu(count)) << count;
  }
}

TEST_P(OptimizerTest, AnElementsResultDoesNotDependOnItsPlace) {
  EXPECT_EQ(Run(1000, 1, 0), OnCpu(1000));
  EXPECT_EQ(Run(1000, 0, 333), OnCpu(1000));
}

TEST_P(OptimizerTest, ReadsFromElsewhere) {
  constexpr int64_t kCount = 103;
  const int moments = MomentsOf(GetParam());
  const State before = RandomState(kCount, moments);
  const std::vector<float> gradients = Gradients(kCount, 1);
  State want = before;
  ringmaster::ApplyOptimizer<float>(
      GetParam(), UpdateAt(1),
      {absl::MakeSpan(want.parameters), gradients, absl::MakeSpan(want.first),
       absl::MakeSpan(want.second)});

  const DeviceArray<float> g(gradients);
  const DeviceArray<float> old_p(before.parameters), p(kCount);
  const DeviceArray<float> old_m(before.first), m(moments >= 1 ? kCount : 0);
  const DeviceArray<float> old_v(before.second), v(moments >= 2 ? kCount : 0);
  ApplyOptimizer(
      stream(), GetParam(), UpdateAt(1),
      {Part(p, true, 0, kCount),
       Part(g, true, 0, kCount),
       Part(m, moments >= 1, 0, kCount),
       Part(v, moments >= 2, 0, kCount),
       {Part(old_p, true, 0, kCount), Part(old_m, moments >= 1, 0, kCount),
        Part(old_v, moments >= 2, 0, kCount)}});
  ASSERT_TRUE(Finish());
  EXPECT_EQ((State{p.Read(), m.Read(), v.Read()}), want);
  EXPECT_EQ((State{old_p.Read(), old_m.Read(), old_v.Read()}), before);
}

TEST_P(OptimizerTest, ZerosStayZerosAndNanIsNotHidden) {
  const int moments = MomentsOf(GetParam());
  const std::vector<float> zeros(8, 0.0f);
  std::vector<float> gradients = zeros;
  gradients[3] = std::numeric_limits<float>::quiet_NaN();
  const DeviceArray<float> p(zeros), g(gradients), m(zeros), v(zeros);
  ApplyOptimizer(stream(), GetParam(), UpdateAt(1),
                 {Part(p, true, 0, 8), Part(g, true, 0, 8),
                  Part(m, moments >= 1, 0, 8), Part(v, moments >= 2, 0, 8)});
  ASSERT_TRUE(Finish());
  const std::vector<float> got = p.Read();
  for (size_t i = 0; i < got.size(); ++i) {
    if (i == 3) {
      EXPECT_TRUE(std::isnan(got[i]));
    } else {
      EXPECT_EQ(got[i], 0.0f) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerTest,
                         ::testing::Values(AdamW(), Sgd(0, false),
                                           Sgd(0.9, false), Sgd(0.9, true)));

}  // namespace
}  // namespace ringmaster::cuda
