#include "common/plan/counter_random.h"

#include <bit>
#include <cmath>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(CounterRandomTest, IsAFunctionOfKeyAndCounterAlone) {
  EXPECT_EQ(CounterRandom(1, 2), CounterRandom(1, 2));
  EXPECT_NE(CounterRandom(1, 2), CounterRandom(2, 1));
  EXPECT_NE(CounterRandom(1, 2), CounterRandom(1, 3));
  // Pinned: a changed generator would change every job's initial parameters.
  EXPECT_EQ(CounterRandom(1, 0), 0x5e41ab087439611eu);
}

TEST(CounterRandomTest, NeighbouringCountersDifferInHalfOfTheirBits) {
  int64_t flipped = 0;
  constexpr int kPairs = 10000;
  for (uint64_t i = 0; i < kPairs; ++i)
    flipped += std::popcount(CounterRandom(7, i) ^ CounterRandom(7, i + 1));
  EXPECT_NEAR(static_cast<double>(flipped) / kPairs, 32.0, 0.25);
}

TEST(CounterRandomTest, UnitIntervalIsUniform) {
  double sum = 0;
  double sum_of_squares = 0;
  constexpr int kDraws = 100000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double x = UnitInterval(CounterRandom(3, i));
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    sum += x;
    sum_of_squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 1.0 / 2, 0.005);
  EXPECT_NEAR(sum_of_squares / kDraws, 1.0 / 3, 0.005);
  EXPECT_LT(UnitInterval(~uint64_t{0}), 1.0);
}

}  // namespace
}  // namespace ringmaster
