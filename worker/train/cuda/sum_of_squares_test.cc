#include "worker/train/cuda/sum_of_squares.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "common/optimizer/norm.h"
#include "gtest/gtest.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/testing/operator_testing.h"

namespace ringmaster::cuda {
namespace {

class SumOfSquaresTest : public DeviceTest {
 protected:
  double Sum(const std::vector<float>& elems, int64_t offset = 0) {
    const auto count = static_cast<int64_t>(elems.size());
    const DeviceArray<float> device_elems(elems, offset);
    const DeviceArray<double> scratch(SumOfSquaresScratchElems(count));
    const DeviceArray<double> sum(1);
    SumOfSquares(stream(), count, device_elems.get(), scratch.get(), sum.get());
    EXPECT_TRUE(Finish());
    static_cast<void>(scratch.Read());  // its guards
    return sum.Read()[0];
  }
};

TEST_F(SumOfSquaresTest, MatchesTheCpu) {
  // Counts for one block, and for several.
  for (int64_t count : {0, 1, 3, 1023, 16384, 16385, 100003}) {
    const std::vector<float> elems = Random<float>(count, 1, 3);
    const double want =
        ringmaster::SumOfSquares(absl::Span<const float>(elems));
    EXPECT_NEAR(Sum(elems), want, 1e-13 * want) << count;
  }
}

TEST_F(SumOfSquaresTest, OrderDependsOnTheLengthAlone) {
  const std::vector<float> elems = Random<float>(40001, 1, 3);
  const double sum = Sum(elems);
  EXPECT_EQ(Sum(elems), sum);
  EXPECT_EQ(Sum(elems, 1), sum) << "one load or several";
}

TEST_F(SumOfSquaresTest, LargeElementsDoNotOverflow) {
  const float large = std::numeric_limits<float>::max();
  EXPECT_EQ(Sum({large, large}), 2.0 * large * large);
}

TEST_F(SumOfSquaresTest, IsNotFiniteIffAnElementIsNot) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(),
                    -std::numeric_limits<float>::infinity()}) {
    for (size_t at : {size_t{0}, size_t{20000}, size_t{20001}}) {
      std::vector<float> elems(20002, 1.0f);
      elems[at] = bad;
      EXPECT_FALSE(std::isfinite(Sum(elems))) << at;
    }
  }
}

}  // namespace
}  // namespace ringmaster::cuda
