#include "common/optimizer/norm.h"

#include <cmath>
#include <limits>
#include <vector>

#include "common/plan/counter_random.h"
#include "common/tensor/cpu_dispatch.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(SumOfSquaresTest, MatchesAPlainSumForEveryRemainder) {
  for (size_t count = 0; count < 70; ++count) {
    std::vector<float> elems(count);
    long double plain = 0;
    for (size_t i = 0; i < count; ++i) {
      elems[i] =
          static_cast<float>(UnitInterval(CounterRandom(count, i)) - 0.5);
      plain += static_cast<long double>(elems[i]) * elems[i];
    }
    EXPECT_NEAR(SumOfSquares<float>(elems), static_cast<double>(plain), 1e-14)
        << count << " elements";
  }
}

TEST(SumOfSquaresTest, LargeFloatsDoNotOverflow) {
  const std::vector<float> elems(1000, std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(SumOfSquares<float>(elems)));
}

TEST(SumOfSquaresTest, IsNotFiniteIfAnyElementIsNot) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(),
                    -std::numeric_limits<float>::infinity()}) {
    for (size_t place = 0; place < 37; ++place) {
      std::vector<float> elems(37, 1.0f);
      elems[place] = bad;
      EXPECT_FALSE(std::isfinite(SumOfSquares<float>(elems))) << "at " << place;
    }
  }
}

constexpr size_t kBlock = size_t{1} << 16;

std::vector<float> Uniform(size_t count) {
  std::vector<float> elems(count);
  for (size_t i = 0; i < count; ++i)
    elems[i] = static_cast<float>(UnitInterval(CounterRandom(5, i)) - 0.5);
  return elems;
}

// Lengths about the borders of blocks.
TEST(SumOfSquaresTest, IsTheSameOnEveryProcessor) {
  for (size_t count : {kBlock - 1, kBlock, kBlock + 1, 3 * kBlock + 5}) {
    const std::vector<float> elems = Uniform(count);
    const double alone = SumOfSquares<float>(elems);
    long double plain = 0;
    for (float x : elems) plain += static_cast<long double>(x) * x;
    EXPECT_NEAR(alone, static_cast<double>(plain), 1e-12 * alone);
    for (CpuIsa isa : {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
      const ScopedIsaCap cap(isa);
      EXPECT_EQ(SumOfSquares<float>(elems), alone)
          << count << " elements, " << CpuIsaName(isa);
    }
  }
}

TEST(SumOfSquaresTest, CountsEveryElementOfAVeryLongSpan) {
  const std::vector<float> elems(256 * kBlock + 77, 0.5f);
  EXPECT_EQ(SumOfSquares<float>(elems),
            0.25 * static_cast<double>(elems.size()));
}

TEST(SumOfSquaresTest, WorksInDouble) {
  const std::vector<double> elems = {3, 4};
  EXPECT_EQ(SumOfSquares<double>(elems), 25);
}

TEST(ClipFactorTest, ScalesALongerNormDownToTheLimit) {
  EXPECT_EQ(ClipFactor(25, 1), 0.2);
  EXPECT_EQ(ClipFactor(25, 5), 1);
  EXPECT_EQ(ClipFactor(25, 10), 1);
  EXPECT_EQ(ClipFactor(0, 1), 1);
}

TEST(ClipFactorTest, ZeroMeansNoClipping) {
  EXPECT_EQ(ClipFactor(1e300, 0), 1);
}

}  // namespace
}  // namespace ringmaster
