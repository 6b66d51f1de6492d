#include "worker/nn/cuda/bias.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/nn/compute.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/testing/operator_testing.h"

namespace ringmaster::cuda {
namespace {

template <typename T>
class BiasTest : public DeviceTest {
 protected:
  std::vector<float> Backward(int64_t rows, int64_t columns, Write write,
                              const std::vector<float>& dy, int64_t offset) {
    const auto device_dy = DeviceArray<T>::Of(dy, offset);
    const DeviceArray<float> scratch(BiasBackwardScratchElems(rows, columns));
    const DeviceArray<float> dbias(Before<float>(write, columns), offset);
    BiasBackward<T>(this->stream(), rows, columns, columns, write,
                    device_dy.get(), scratch.get(), dbias.get());
    EXPECT_TRUE(this->Finish());
    static_cast<void>(scratch.Read());  // its guards
    return dbias.Read();
  }
};
TYPED_TEST_SUITE(BiasTest, ElementTypes);

TYPED_TEST(BiasTest, MatchesTheSumInDouble) {
  using T = TypeParam;
  for (int64_t rows : {0, 1, 63, 64, 65, 300, 9000}) {
    for (int64_t columns : {1, 8, 31, 264, 520}) {
      if (rows * columns > 300000) continue;
      for (Write write : {Write::kSet, Write::kAdd}) {
        for (int64_t offset : {0, 1}) {
          const std::vector<float> dy =
              RoundedTo<T>(Random<float>(rows * columns, 1));
          const std::vector<float> before = Before<float>(write, columns);
          std::vector<float> want;
          for (int64_t column = 0; column < columns; ++column) {
            double sum = write == Write::kAdd ? before[column] : 0.0;
            for (int64_t row = 0; row < rows; ++row)
              sum += dy[row * columns + column];
            want.push_back(static_cast<float>(sum));
          }
          SCOPED_TRACE(::testing::Message()
                       << rows << "x" << columns << " at " << offset);
          const std::vector<float> got =
              this->Backward(rows, columns, write, dy, offset);
          ExpectNear<float>(got, want, "dbias");
          EXPECT_EQ(got, this->Backward(rows, columns, write, dy, offset));
        }
      }
    }
  }
}

TYPED_TEST(BiasTest, RowsMayLieApart) {
  using T = TypeParam;
  constexpr int64_t kRows = 70;
  for (const auto& [columns, stride] :
       std::vector<std::pair<int64_t, int64_t>>{{10, 16}, {16, 24}, {8, 9}}) {
    const std::vector<float> dy =
        RoundedTo<T>(Random<float>(kRows * stride, 1));
    std::vector<float> want(static_cast<size_t>(columns), 0.0f);
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t column = 0; column < columns; ++column)
        want[column] += dy[row * stride + column];
    }
    const auto device_dy = DeviceArray<T>::Of(dy);
    const DeviceArray<float> scratch(BiasBackwardScratchElems(kRows, columns));
    const DeviceArray<float> dbias(columns);
    BiasBackward<T>(this->stream(), kRows, columns, stride, Write::kSet,
                    device_dy.get(), scratch.get(), dbias.get());
    ASSERT_TRUE(this->Finish());
    ExpectNear<float>(dbias.Read(), want, "dbias");
  }
}

TYPED_TEST(BiasTest, NanIsNotHidden) {
  std::vector<float> dy(100 * 16, 1.0f);
  dy[99 * 16 + 5] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> got = this->Backward(100, 16, Write::kSet, dy, 0);
  EXPECT_TRUE(std::isnan(got[5]));
  EXPECT_EQ(got[6], 100);
}

}  // namespace
}  // namespace ringmaster::cuda
