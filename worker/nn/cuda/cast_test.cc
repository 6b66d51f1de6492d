#include "worker/nn/cuda/cast.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "worker/nn/cuda/testing/device_operands.h"

namespace ringmaster::cuda {
namespace {

template <typename T>
class CastTest : public DeviceTest {};
TYPED_TEST_SUITE(CastTest, ElementTypes);

TYPED_TEST(CastTest, RoundsEveryElement) {
  using T = TypeParam;
  for (int64_t count : {0, 1, 7, 8, 9, 255, 4001}) {
    for (int64_t offset : {0, 1}) {
      const std::vector<float> values = Random<float>(count, 3, 100);
      const DeviceArray<float> x(values, offset);
      const DeviceArray<T> y(count, offset);
      const DeviceArray<float> back(count, offset);
      CastFromFloat<T>(this->stream(), count, x.get(), y.get());
      CastToFloat<T>(this->stream(), count, y.get(), back.get());
      ASSERT_TRUE(this->Finish());
      EXPECT_EQ(y.Floats(), RoundedTo<T>(values)) << count;
      EXPECT_EQ(back.Read(), RoundedTo<T>(values)) << count;
    }
  }
}

TYPED_TEST(CastTest, KeepsNanAndInfinity) {
  using T = TypeParam;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const DeviceArray<float> x(std::vector<float>{
      std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity, -0.0f});
  const DeviceArray<T> y(4);
  CastFromFloat<T>(this->stream(), 4, x.get(), y.get());
  ASSERT_TRUE(this->Finish());
  const std::vector<float> got = y.Floats();
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_EQ(got[1], kInfinity);
  EXPECT_EQ(got[2], -kInfinity);
  EXPECT_TRUE(std::signbit(got[3]));
}

}  // namespace
}  // namespace ringmaster::cuda
