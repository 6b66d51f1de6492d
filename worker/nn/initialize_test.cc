#include "worker/nn/initialize.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

const std::vector<TensorSpec>& Specs() {
  static const auto& specs =
      *new std::vector<TensorSpec>{{"a", {10, 100}, Initializer::Uniform(0.5)},
                                   {"b", {3}, Initializer::Constant(1.5)},
                                   {"c", {10, 100}, Initializer::Uniform(0.5)}};
  return specs;
}

template <typename T>
std::vector<T> Initialized(const Plan& plan, uint64_t seed) {
  std::vector<T> parameters(static_cast<size_t>(plan.total_elems()), T{7});
  InitializeParameters<T>(plan, seed, absl::MakeSpan(parameters));
  return parameters;
}

TEST(InitializeParametersTest,
     IsTheSameForASeedAndDiffersBetweenSeedsAndTensors) {
  const Plan plan = *Plan::Create("m", Specs(), {});
  const std::vector<float> first = Initialized<float>(plan, 1);
  EXPECT_EQ(first, Initialized<float>(plan, 1));
  EXPECT_NE(first, Initialized<float>(plan, 2));
  EXPECT_NE(first[0],
            first[static_cast<size_t>(plan.tensors()[2].range.begin)]);
}

TEST(InitializeParametersTest, TensorStartsTheSameWhereverItLies) {
  const std::vector<TensorSpec> reversed(Specs().rbegin(), Specs().rend());
  const Plan plan = *Plan::Create("m", Specs(), {});
  const Plan other = *Plan::Create("m", reversed, {});
  const std::vector<float> x = Initialized<float>(plan, 1);
  const std::vector<float> y = Initialized<float>(other, 1);
  const ElemRange a = plan.tensors()[0].range;
  const ElemRange b = other.tensors()[2].range;
  for (int64_t i = 0; i < a.count; ++i)
    ASSERT_EQ(x[a.begin + i], y[b.begin + i]);
}

TEST(InitializeParametersTest, StartsInDoubleWhereItStartsInFloat) {
  const Plan plan = *Plan::Create("m", Specs(), {});
  const std::vector<float> x = Initialized<float>(plan, 3);
  const std::vector<double> y = Initialized<double>(plan, 3);
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(static_cast<double>(x[i]), y[i]);
}

TEST(InitializeParametersTest, NormalHasMeanZeroAndTheDeviation) {
  constexpr int64_t kCount = 100'000;
  const std::vector<TensorSpec> specs = {
      {"n", {kCount}, Initializer::Normal(0.02)}};
  const Plan plan = *Plan::Create("m", specs, {});
  const std::vector<double> x = Initialized<double>(plan, 1);
  double sum = 0;
  double sum_of_squares = 0;
  int64_t within_one = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    sum += x[i];
    sum_of_squares += x[i] * x[i];
    within_one += std::abs(x[i]) < 0.02;
  }
  EXPECT_NEAR(sum / kCount, 0, 3 * 0.02 / std::sqrt(kCount));
  EXPECT_NEAR(std::sqrt(sum_of_squares / kCount), 0.02, 2e-4);
  EXPECT_NEAR(static_cast<double>(within_one) / kCount, 0.68, 0.02);
}

TEST(InitializeParametersTest, FollowsTheSpecsAndZeroesThePadding) {
  const Plan plan = *Plan::Create("m", Specs(), {});
  const std::vector<float> x = Initialized<float>(plan, 1);
  double sum = 0;
  double sum_of_squares = 0;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_LT(std::abs(x[i]), 0.5f);
    sum += x[i];
    sum_of_squares += x[i] * x[i];
  }
  EXPECT_NEAR(sum / 1000, 0, 0.05);
  EXPECT_NEAR(sum_of_squares / 1000, 0.25 / 3, 0.01);
  const ElemRange b = plan.tensors()[1].range;
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(x[b.begin + i], 1.5f);
  for (int64_t i = b.end(); i < plan.tensors()[2].range.begin; ++i)
    EXPECT_EQ(x[i], 0);
}

}  // namespace
}  // namespace ringmaster
