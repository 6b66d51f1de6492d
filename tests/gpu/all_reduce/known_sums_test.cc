#include "tests/gpu/all_reduce/known_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ringmaster {
namespace {

std::vector<float> Summed(int ranks, int times, int64_t count) {
  std::vector<float> sums(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    std::vector<float> values;
    for (int rank = 0; rank < ranks; ++rank) {
      values.push_back(KnownValue(rank, i));
    }
    for (int time = 0; time < times; ++time) {
      float sum = 0;
      for (const float value : values) sum += value;
      values.assign(values.size(), sum);
    }
    sums[static_cast<size_t>(i)] = values[0];
  }
  return sums;
}

TEST(KnownSumsTest, AcceptsWhatAnAllReduceMakes) {
  for (const int ranks : {1, 2, 3, 7, 8}) {
    for (const int times : {1, 3, 20}) {
      EXPECT_FALSE(
          FirstWrongSum(Summed(ranks, times, 100), ranks, times).has_value())
          << ranks << " ranks, " << times << " times";
    }
  }
}

TEST(KnownSumsTest, SeesARankOrASumThatIsMissing) {
  EXPECT_EQ(FirstWrongSum(Summed(3, 5, 10), 4, 5), 0);
  EXPECT_EQ(FirstWrongSum(Summed(3, 4, 10), 3, 5), 0);
}

TEST(KnownSumsTest, SeesAWrongElement) {
  for (const float wrong : {0.0f, 15.001f, std::nanf("")}) {
    std::vector<float> sums = Summed(2, 1, 30);
    ASSERT_EQ(sums[18], 15);
    sums[18] = wrong;
    EXPECT_EQ(FirstWrongSum(sums, 2, 1), 18) << wrong;
  }
}

}  // namespace
}  // namespace ringmaster
