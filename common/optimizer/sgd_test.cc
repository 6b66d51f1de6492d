#include "common/optimizer/sgd.h"

#include <cmath>
#include <vector>

#include "absl/types/span.h"
#include "common/plan/counter_random.h"
#include "common/tensor/cpu_dispatch.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

constexpr size_t kCount = 103;
constexpr int64_t kSteps = 5;

double Uniform(int64_t step, size_t i) {
  return 2 * UnitInterval(CounterRandom(static_cast<uint64_t>(step), i)) - 1;
}

template <typename T>
std::vector<T> Start() {
  std::vector<T> p(kCount);
  for (size_t i = 0; i < kCount; ++i)
    p[i] = static_cast<T>(static_cast<float>(Uniform(99, i)));
  return p;
}

// Torch's definition, one element at a time in double; the momentum's first
// value is the gradient.
double PlainElement(const OptimizerConfig& c, double scale, double start,
                    size_t i) {
  double p = start;
  double m = 0;
  for (int64_t step = 1; step <= kSteps; ++step) {
    double g =
        scale * static_cast<float>(Uniform(step, i)) + c.weight_decay * p;
    if (c.momentum != 0) {
      m = step == 1 ? g : c.momentum * m + g;
      g = c.nesterov ? g + c.momentum * m : m;
    }
    p -= c.learning_rate * g;
  }
  return p;
}

// The parameters after kSteps updates of slices of `length`.
template <typename T>
std::vector<T> Train(const OptimizerConfig& config, double scale,
                     size_t length) {
  std::vector<T> p = Start<T>();
  std::vector<T> g(kCount);
  std::vector<T> m(config.momentum == 0 ? 0 : kCount);
  for (int64_t step = 1; step <= kSteps; ++step) {
    for (size_t i = 0; i < kCount; ++i)
      g[i] = static_cast<T>(static_cast<float>(Uniform(step, i)));
    for (size_t begin = 0; begin < kCount; begin += length) {
      ApplySgd<T>(
          config,
          {.learning_rate = config.learning_rate, .gradient_scale = scale},
          {absl::MakeSpan(p).subspan(begin, length),
           absl::MakeConstSpan(g).subspan(begin, length),
           m.empty() ? absl::Span<T>()
                     : absl::MakeSpan(m).subspan(begin, length)});
    }
  }
  return p;
}

const OptimizerConfig kConfigs[] = {
    {.kind = "sgd", .learning_rate = 0.1, .weight_decay = 0},
    {.kind = "sgd", .learning_rate = 0.1, .weight_decay = 0.01},
    {.kind = "sgd", .learning_rate = 0.1, .momentum = 0.9},
    {.kind = "sgd", .learning_rate = 0.1, .momentum = 0.9, .nesterov = true},
};

TEST(SgdTest, FollowsThePlainFormula) {
  for (const OptimizerConfig& config : kConfigs) {
    const std::vector<double> exact = Train<double>(config, 0.5, kCount);
    const std::vector<float> rounded = Train<float>(config, 0.5, kCount);
    for (size_t i = 0; i < kCount; ++i) {
      const double plain = PlainElement(config, 0.5, Start<double>()[i], i);
      ASSERT_NEAR(exact[i], plain, 1e-14) << config.momentum;
      ASSERT_NEAR(rounded[i], plain, 1e-6) << config.momentum;
    }
  }
}

TEST(SgdTest, ResultsDependOnNeitherSlicesNorTheProcessor) {
  for (const OptimizerConfig& config : kConfigs) {
    const std::vector<float> whole = Train<float>(config, 1, kCount);
    for (CpuIsa isa : {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
      const ScopedIsaCap cap(isa);
      for (size_t length : {size_t{1}, size_t{17}, kCount})
        EXPECT_EQ(Train<float>(config, 1, length), whole) << CpuIsaName(isa);
    }
  }
}

TEST(SgdTest, DecaysNothingIfTheUpdateSaysSo) {
  float p = 1;
  const float g = 0;
  ApplySgd<float>({.kind = "sgd", .weight_decay = 0.5},
                  {.learning_rate = 1, .decays = false}, {{&p, 1}, {&g, 1}});
  EXPECT_EQ(p, 1);
  ApplySgd<float>({.kind = "sgd", .weight_decay = 0.5}, {.learning_rate = 1},
                  {{&p, 1}, {&g, 1}});
  EXPECT_EQ(p, 0.5f);
}

}  // namespace
}  // namespace ringmaster
