#include "worker/nn/cuda/pooling.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/pooling.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/testing/reference_conv.h"

namespace ringmaster::cuda {
namespace {

template <typename T>
class PoolingTest : public DeviceTest {};
TYPED_TEST_SUITE(PoolingTest, ElementTypes);

TYPED_TEST(PoolingTest, MatchesReference) {
  using T = TypeParam;
  for (const PoolingShape& shape :
       {PoolingShape{0, 4, 4, 8}, PoolingShape{2, 4, 6, 8},
        PoolingShape{3, 5, 7, 3}, PoolingShape{1, 2, 2, 1},
        PoolingShape{2, 1, 9, 8}, PoolingShape{2, 9, 1, 8},
        PoolingShape{2, 7, 64, 40}}) {
    for (int64_t offset : {0, 1}) {
      SCOPED_TRACE(::testing::Message()
                   << shape.batch << "x" << shape.height << "x" << shape.width
                   << "x" << shape.channels << " at " << offset);
      const int64_t elems =
          shape.batch * shape.height * shape.width * shape.channels;
      const int64_t pooled =
          shape.batch * (shape.height / 2) * (shape.width / 2) * shape.channels;
      // Few values, so that equals are frequent.
      std::vector<float> x = Random<float>(elems, 1, 3);
      for (float& value : x) value = std::floor(value);
      const std::vector<float> dy = RoundedTo<T>(Random<float>(pooled, 2));
      const auto device_x = DeviceArray<T>::Of(x, offset);
      const auto device_dy = DeviceArray<T>::Of(dy, offset);
      const DeviceArray<T> y(pooled, offset);
      const DeviceArray<uint8_t> winners(pooled, offset);
      const DeviceArray<T> dx(elems, offset);
      MaxPoolForward<T>(this->stream(), shape, device_x.get(), y.get(),
                        winners.get());
      MaxPoolBackward<T>(this->stream(), shape, device_dy.get(), winners.get(),
                         dx.get());
      ASSERT_TRUE(this->Finish());
      std::vector<float> want_y = Unwritten<float>(pooled);
      std::vector<uint8_t> want_winners(static_cast<size_t>(pooled));
      std::vector<float> want_dx = Unwritten<float>(elems);
      reference::MaxPoolForward<float>(shape, x.data(), want_y.data(),
                                       want_winners.data());
      reference::MaxPoolBackward<float>(shape, dy.data(), want_winners.data(),
                                        want_dx.data());
      EXPECT_EQ(y.Floats(), want_y);
      EXPECT_EQ(winners.Read(), want_winners);
      EXPECT_EQ(dx.Floats(), want_dx);
    }
  }
}

TYPED_TEST(PoolingTest, NanWins) {
  using T = TypeParam;
  for (int at = 0; at < 4; ++at) {
    std::vector<float> x = {1, 2, 3, 4};
    x[at] = std::numeric_limits<float>::quiet_NaN();
    const auto device_x = DeviceArray<T>::Of(x);
    const DeviceArray<T> y(1);
    const DeviceArray<uint8_t> winners(1);
    MaxPoolForward<T>(this->stream(), {1, 2, 2, 1}, device_x.get(), y.get(),
                      winners.get());
    ASSERT_TRUE(this->Finish());
    uint8_t want = 0;
    float want_y = 0;
    ringmaster::MaxPoolForward<float>(OneThread(), {1, 2, 2, 1}, x.data(),
                                      &want_y, &want);
    EXPECT_EQ(winners.Read()[0], want) << at;
    EXPECT_EQ(std::isnan(y.Floats()[0]), std::isnan(want_y)) << at;
  }
}

TYPED_TEST(PoolingTest, Of3x3AndTheMeanAreThoseOfACpu) {
  for (const PoolingShape& shape :
       std::vector<PoolingShape>{{2, 7, 6, 3}, {1, 8, 5, 8}, {3, 1, 1, 4}}) {
    const int64_t count =
        shape.batch * shape.height * shape.width * shape.channels;
    const int64_t out = shape.batch * ((shape.height + 1) / 2) *
                        ((shape.width + 1) / 2) * shape.channels;
    const int64_t channels = shape.batch * shape.channels;
    const auto x = RoundedTo<TypeParam>(Random<float>(count, 1));
    const auto dy = RoundedTo<TypeParam>(Random<float>(out, 2));
    const auto dmean = RoundedTo<TypeParam>(Random<float>(channels, 3));
    std::vector<float> want_y(static_cast<size_t>(out)),
        want_dx(static_cast<size_t>(count)),
        want_mean(static_cast<size_t>(channels)),
        want_spread(static_cast<size_t>(count));
    std::vector<uint8_t> want_winners(static_cast<size_t>(out));
    const Compute cpu = OneThread();
    ringmaster::MaxPool3Forward<float>(cpu, shape, x.data(), want_y.data(),
                                       want_winners.data());
    ringmaster::MaxPool3Backward<float>(cpu, shape, dy.data(),
                                        want_winners.data(), want_dx.data());
    ringmaster::MeanPoolForward<float>(cpu, shape, x.data(), want_mean.data());
    ringmaster::MeanPoolBackward<float>(cpu, shape, dmean.data(),
                                        want_spread.data());
    const auto device_x = DeviceArray<TypeParam>::Of(x);
    const auto device_dy = DeviceArray<TypeParam>::Of(dy);
    const auto device_dmean = DeviceArray<TypeParam>::Of(dmean);
    const DeviceArray<TypeParam> y(out), dx(count), mean(channels),
        spread(count);
    const DeviceArray<uint8_t> winners(out);
    MaxPool3Forward<TypeParam>(this->stream(), shape, device_x.get(), y.get(),
                               winners.get());
    MaxPool3Backward<TypeParam>(this->stream(), shape, device_dy.get(),
                                winners.get(), dx.get());
    MeanPoolForward<TypeParam>(this->stream(), shape, device_x.get(),
                               mean.get());
    MeanPoolBackward<TypeParam>(this->stream(), shape, device_dmean.get(),
                                spread.get());
    ASSERT_TRUE(this->Finish());
    EXPECT_EQ(y.Floats(), want_y);
    EXPECT_EQ(winners.Read(), want_winners);
    ExpectNear<TypeParam>(dx.Floats(), want_dx, "dx");
    ExpectNear<TypeParam>(mean.Floats(), want_mean, "mean");
    ExpectNear<TypeParam>(spread.Floats(), want_spread, "spread");
  }
}

}  // namespace
}  // namespace ringmaster::cuda
