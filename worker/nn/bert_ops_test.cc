// The operators of a BERT against their formulas, and gradients against finite
// differences in double.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "worker/nn/compute.h"
#include "worker/nn/gather.h"
#include "worker/nn/gelu.h"
#include "worker/nn/tanh.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/texts.h"

namespace ringmaster {
namespace {

template <typename T>
class BertOperatorTest : public ::testing::Test {};
using ScalarTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(BertOperatorTest, ScalarTypes);

double Gelu(double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }

// A slope, by central differences.
template <typename Function>
double Slope(Function function, double x) {
  constexpr double kStep = 1e-5;
  return (function(x + kStep) - function(x - kStep)) / (2 * kStep);
}

TYPED_TEST(BertOperatorTest, ErfGeluIsTheFormula) {
  using T = TypeParam;
  std::vector<T> x = Random<T>(1000, 1, 6);
  x.insert(x.end(), {T{0}, T{-0.001f}, T{12}, T{-12}});
  const std::vector<T> dy = Random<T>(static_cast<int64_t>(x.size()), 2);
  std::vector<T> y = x;
  std::vector<T> dx = dy;
  std::vector<T> apart = x;
  const auto count = static_cast<int64_t>(x.size());
  GeluForward<T>(OneThread(), count, x.data(), y.data(), GeluForm::kErf);
  GeluBackward<T>(OneThread(), count, x.data(), dx.data(), dx.data(),
                  GeluForm::kErf);
  GeluBackward<T>(OneThread(), count, x.data(), dy.data(), apart.data(),
                  GeluForm::kErf);
  const double tolerance = sizeof(T) == sizeof(float) ? 1e-6 : 1e-9;
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(y[i], Gelu(x[i]), tolerance) << x[i];
    EXPECT_NEAR(dx[i], dy[i] * Slope(Gelu, x[i]), tolerance) << x[i];
    EXPECT_EQ(dx[i], apart[i]);
  }
}

TYPED_TEST(BertOperatorTest, ErfGeluOfExtremesIsFiniteAndKeepsNan) {
  using T = TypeParam;
  const std::vector<T> x = {T{-1e30f}, T{-60}, T{60}, T{1e30f},
                            std::numeric_limits<T>::quiet_NaN()};
  std::vector<T> y(5);
  std::vector<T> dx(5, T{1});
  GeluForward<T>(OneThread(), 5, x.data(), y.data(), GeluForm::kErf);
  GeluBackward<T>(OneThread(), 5, x.data(), dx.data(), dx.data(),
                  GeluForm::kErf);
  EXPECT_NEAR(y[0], 0, 1e-3);
  EXPECT_NEAR(y[1], 0, 1e-20);
  EXPECT_EQ(y[2], 60);
  EXPECT_EQ(y[3], x[3]);
  EXPECT_TRUE(std::isnan(y[4]));
  for (const size_t i : {0, 1}) EXPECT_NEAR(dx[i], 0, 1e-6);
  for (const size_t i : {2, 3}) EXPECT_NEAR(dx[i], 1, 1e-6);
  EXPECT_TRUE(std::isnan(dx[4]));
}

TYPED_TEST(BertOperatorTest, TanhIsTheFormula) {
  using T = TypeParam;
  const std::vector<T> x = Random<T>(100, 1, 3);
  const std::vector<T> dy = Random<T>(100, 2);
  std::vector<T> y = x;
  std::vector<T> dx = dy;
  TanhForward<T>(OneThread(), 100, y.data());
  TanhBackward<T>(OneThread(), 100, y.data(), dx.data(), dx.data());
  const auto tanh = [](double z) { return std::tanh(z); };
  const double tolerance = sizeof(T) == sizeof(float) ? 1e-6 : 1e-9;
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(y[i], std::tanh(x[i]), tolerance);
    EXPECT_NEAR(dx[i], dy[i] * Slope(tanh, x[i]), tolerance);
  }
}

TYPED_TEST(BertOperatorTest, RowsAreGatheredAndPutBack) {
  using T = TypeParam;
  const std::vector<T> x = {1, 2, 3, 4, 5, 6};
  const std::vector<int32_t> places = {2, 0};
  std::vector<T> y(4);
  GatherForward<T>(OneThread(), {2, 3, 2}, places.data(), x.data(), y.data());
  EXPECT_EQ(y, (std::vector<T>{5, 6, 1, 2}));
  std::vector<T> dx = Unwritten<T>(6);
  GatherBackward<T>(OneThread(), {2, 3, 2}, places.data(), y.data(), dx.data());
  EXPECT_EQ(dx, (std::vector<T>{1, 2, 0, 0, 5, 6}));
}

TEST(TextsTest, ATextEndsWithItsLastTokenThatIsNotPadding) {
  // Padding between tokens is none.
  const std::vector<int32_t> ids = {5, 0, 7, 0, 0, 0, 0, 0, 1, 2, 3, 4};
  std::vector<int32_t> lengths(3), firsts(3);
  FindTexts(OneThread(), {3, 4}, 0, ids.data(), lengths.data(), firsts.data());
  EXPECT_EQ(lengths, (std::vector<int32_t>{3, 1, 4}));
  EXPECT_EQ(firsts, (std::vector<int32_t>{0, 4, 8}));
}

TEST(TextsTest, ASeparatorEndsTheTokensOfAType) {
  const std::vector<int32_t> ids = {5, 3, 6, 3, 7};
  std::vector<float> types = Unwritten<float>(10);
  FindTypes<float>(OneThread(), {1, 5}, 2, 3, ids.data(), types.data());
  EXPECT_EQ(types, (std::vector<float>{1, 0, 1, 0, 0, 1, 0, 1, 0, 1}));
  FindTypes<float>(OneThread(), {1, 5}, 1, 3, ids.data(), types.data());
  EXPECT_EQ(types[4], 1);
}

// The result of masking some samples.
struct Masked {
  Masked(const MaskingShape& shape, uint64_t key,
         const std::vector<int64_t>& sample_ids,
         const std::vector<int32_t>& given)
      : ids(given),
        inputs(ids.size()),
        places(static_cast<size_t>(shape.texts.samples * shape.count)),
        targets(places.size()) {
    MaskTokens(OneThread(), shape,
               {0.15, key, sample_ids.data(), shape.texts.tokens}, ids.data(),
               inputs.data(), places.data(), targets.data());
  }
  std::vector<int32_t> ids, inputs, places, targets;
};

constexpr MaskingShape kMasking = {{50, 128}, 19, 100, 99};

std::vector<int64_t> Range(int64_t count) {
  std::vector<int64_t> range(static_cast<size_t>(count));
  for (size_t i = 0; i < range.size(); ++i) range[i] = static_cast<int64_t>(i);
  return range;
}

TEST(TextsTest, EightInTenMaskedTokensAreMasksAndOneIsAnother) {
  const std::vector<int32_t> ids(50 * 128, 7);
  const Masked masked(kMasking, 1, Range(50), ids);
  int64_t masks = 0;
  int64_t same = 0;
  std::set<int32_t> places;
  for (size_t i = 0; i < masked.places.size(); ++i) {
    const int32_t place = masked.places[i];
    EXPECT_EQ(place / 128, static_cast<int32_t>(i / 19));
    EXPECT_TRUE(places.insert(place).second);
    EXPECT_EQ(masked.targets[i], 7);
    masks += masked.inputs[place] == 99 ? 1 : 0;
    same += masked.inputs[place] == 7 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(masks) / 950, 0.8, 0.04);
  EXPECT_NEAR(static_cast<double>(same) / 950, 0.1, 0.03);
  for (int32_t i = 0; i < 50 * 128; ++i) {
    if (!places.contains(i)) {
      ASSERT_EQ(masked.inputs[i], 7);
    }
  }
}

TEST(TextsTest, MasksFollowTheSampleAndNotItsPlace) {
  std::vector<int32_t> ids(2 * 128);
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>(i % 128 % 97);
  const MaskingShape two = {{2, 128}, 19, 100, 99};
  const Masked first(two, 1, {5, 6}, ids);
  const Masked second(two, 1, {6, 5}, ids);
  EXPECT_TRUE(std::equal(first.inputs.begin(), first.inputs.begin() + 128,
                         second.inputs.begin() + 128));
  EXPECT_FALSE(std::equal(first.inputs.begin(), first.inputs.begin() + 128,
                          second.inputs.begin()));
  // Another pass masks others.
  EXPECT_NE(Masked(two, 2, {5, 6}, ids).inputs, first.inputs);
}

TEST(TextsTest, EveryTokenIsMaskedAsOften) {
  std::vector<int64_t> times(128);
  for (uint64_t key = 0; key < 20; ++key) {
    const Masked masked(kMasking, key, Range(50),
                        std::vector<int32_t>(50 * 128));
    for (const int32_t place : masked.places) ++times[place % 128];
  }
  for (const int64_t count : times) EXPECT_NEAR(count, 148, 60);
}

}  // namespace
}  // namespace ringmaster
