#include "worker/nn/cuda/activations.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "worker/nn/compute.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/gelu.h"
#include "worker/nn/swiglu.h"
#include "worker/nn/tanh.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/testing/reference_conv.h"
#include "worker/nn/testing/reference_gpt_ops.h"
#include "worker/nn/testing/reference_ops.h"

namespace ringmaster::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
// Odd ones, and one of several blocks.
constexpr int64_t kCounts[] = {0, 1, 7, 8, 9, 255, 5003};

template <typename T>
class ActivationsTest : public DeviceTest {};
TYPED_TEST_SUITE(ActivationsTest, ElementTypes);

TYPED_TEST(ActivationsTest, SwiGluMatchesTheCpu) {
  using T = TypeParam;
  for (int64_t count : kCounts) {
    for (int64_t offset : {0, 1}) {
      const std::vector<float> gate = RoundedTo<T>(Random<float>(count, 1, 20));
      const std::vector<float> up = RoundedTo<T>(Random<float>(count, 2));
      const std::vector<float> dy = RoundedTo<T>(Random<float>(count, 3));
      const auto device_gate = DeviceArray<T>::Of(gate, offset);
      const auto device_up = DeviceArray<T>::Of(up, offset);
      const auto device_dy = DeviceArray<T>::Of(dy, offset);
      const DeviceArray<T> y(count, offset);
      const DeviceArray<T> dup(count, offset);
      SwiGluForward<T>(this->stream(), count, device_gate.get(),
                       device_up.get(), y.get());
      // dgate in the place of dy.
      SwiGluBackward<T>(this->stream(), count, device_gate.get(),
                        device_up.get(), device_dy.get(), device_dy.get(),
                        dup.get());
      ASSERT_TRUE(this->Finish());
      std::vector<float> want_y = Unwritten<float>(count);
      std::vector<float> want_dgate = Unwritten<float>(count);
      std::vector<float> want_dup = Unwritten<float>(count);
      ringmaster::SwiGluForward<float>(OneThread(), count, gate.data(),
                                       up.data(), want_y.data());
      ringmaster::SwiGluBackward<float>(OneThread(), count, gate.data(),
                                        up.data(), dy.data(), want_dgate.data(),
                                        want_dup.data());
      ExpectNear<T>(y.Floats(), want_y, "y");
      ExpectNear<T>(device_dy.Floats(), want_dgate, "dgate");
      ExpectNear<T>(dup.Floats(), want_dup, "dup");
    }
  }
}

TYPED_TEST(ActivationsTest, GeluMatchesReference) {
  using T = TypeParam;
  for (int64_t count : kCounts) {
    for (int64_t offset : {0, 1}) {
      const std::vector<float> x = RoundedTo<T>(Random<float>(count, 1, 6));
      const std::vector<float> dy = RoundedTo<T>(Random<float>(count, 2));
      const auto device_x = DeviceArray<T>::Of(x, offset);
      const auto device_dy = DeviceArray<T>::Of(dy, offset);
      const DeviceArray<T> y(count, offset);
      const DeviceArray<T> dx(count, offset);
      GeluForward<T>(this->stream(), count, device_x.get(), y.get());
      GeluBackward<T>(this->stream(), count, device_x.get(), device_dy.get(),
                      dx.get());
      // In place.
      GeluBackward<T>(this->stream(), count, device_x.get(), device_dy.get(),
                      device_dy.get());
      ASSERT_TRUE(this->Finish());
      std::vector<float> want = x;
      reference::GeluForward<float>(count, x.data(), want.data());
      ExpectNear<T>(y.Floats(), want, "y");
      reference::GeluBackward<float>(count, x.data(), dy.data(), want.data());
      ExpectNear<T>(dx.Floats(), want, "dx");
      EXPECT_EQ(device_dy.Floats(), dx.Floats());
    }
  }
}

TYPED_TEST(ActivationsTest, GeluOfExtremesIsFiniteAndKeepsNan) {
  using T = TypeParam;
  const auto x = DeviceArray<T>::Of({-60000, -30, 0, 30, 60000, kNan});
  const auto dy = DeviceArray<T>::Of({1, 1, 1, 1, 1, 1});
  const DeviceArray<T> y(6);
  GeluForward<T>(this->stream(), 6, x.get(), y.get());
  GeluBackward<T>(this->stream(), 6, x.get(), dy.get(), dy.get());
  ASSERT_TRUE(this->Finish());
  const std::vector<float> got = y.Floats();
  const std::vector<float> slopes = dy.Floats();
  const float large = RoundedTo<T>({60000})[0];
  const std::vector<float> want = {0, 0, 0, 30, large};
  const std::vector<float> want_slopes = {0, 0, 0.5f, 1, 1};
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i], want[i]) << i;
    EXPECT_NEAR(slopes[i], want_slopes[i], 1e-6) << i;
  }
  EXPECT_TRUE(std::isnan(got[5]));
  EXPECT_TRUE(std::isnan(slopes[5]));
}

TYPED_TEST(ActivationsTest, ErfGeluAndTanhAreThoseOfACpu) {
  using T = TypeParam;
  for (int64_t count : kCounts) {
    const std::vector<float> x = RoundedTo<T>(Random<float>(count, 1, 4));
    const std::vector<float> dy = RoundedTo<T>(Random<float>(count, 2));
    const auto device_x = DeviceArray<T>::Of(x);
    const auto device_dy = DeviceArray<T>::Of(dy);
    const auto tanh = DeviceArray<T>::Of(x);
    const DeviceArray<T> y(count), dx(count), dtanh(count);
    GeluForward<T>(this->stream(), count, device_x.get(), y.get(),
                   GeluForm::kErf);
    GeluBackward<T>(this->stream(), count, device_x.get(), device_dy.get(),
                    dx.get(), GeluForm::kErf);
    TanhForward<T>(this->stream(), count, tanh.get());
    TanhBackward<T>(this->stream(), count, tanh.get(), device_dy.get(),
                    dtanh.get());
    ASSERT_TRUE(this->Finish());
    std::vector<float> want_y(x.size()), want_dx(x.size()), want_dtanh = dy;
    ringmaster::GeluForward<float>(OneThread(), count, x.data(), want_y.data(),
                                   GeluForm::kErf);
    ringmaster::GeluBackward<float>(OneThread(), count, x.data(), dy.data(),
                                    want_dx.data(), GeluForm::kErf);
    std::vector<float> want_tanh = x;
    ringmaster::TanhForward<float>(OneThread(), count, want_tanh.data());
    const std::vector<float> rounded = tanh.Floats();
    ringmaster::TanhBackward<float>(OneThread(), count, rounded.data(),
                                    dy.data(), want_dtanh.data());
    ExpectNear<T>(y.Floats(), want_y, "y");
    ExpectNear<T>(dx.Floats(), want_dx, "dx");
    ExpectNear<T>(tanh.Floats(), want_tanh, "tanh");
    ExpectNear<T>(dtanh.Floats(), want_dtanh, "dtanh");
  }
}

TYPED_TEST(ActivationsTest, ReluMatchesReference) {
  using T = TypeParam;
  for (int64_t count : kCounts) {
    for (int64_t offset : {0, 1}) {
      const std::vector<float> x = RoundedTo<T>(Random<float>(count, 1));
      const std::vector<float> dy = RoundedTo<T>(Random<float>(count, 2));
      const auto y = DeviceArray<T>::Of(x, offset);
      const auto device_dy = DeviceArray<T>::Of(dy, offset);
      const DeviceArray<T> dx(count, offset);
      ReluForward<T>(this->stream(), count, y.get());
      ReluBackward<T>(this->stream(), count, y.get(), device_dy.get(),
                      dx.get());
      ReluBackward<T>(this->stream(), count, y.get(), device_dy.get(),
                      device_dy.get());
      ASSERT_TRUE(this->Finish());
      std::vector<float> want_y = x;
      reference::ReluForward<float>(count, want_y.data());
      std::vector<float> want_dx = Unwritten<float>(count);
      reference::ReluBackward<float>(count, want_y.data(), dy.data(),
                                     want_dx.data());
      EXPECT_EQ(y.Floats(), want_y);
      EXPECT_EQ(dx.Floats(), want_dx);
      EXPECT_EQ(device_dy.Floats(), want_dx);
    }
  }
}

TYPED_TEST(ActivationsTest, ReluKeepsNan) {
  using T = TypeParam;
  const auto y = DeviceArray<T>::Of({kNan, 1, -kInfinity, kInfinity});
  const auto dy = DeviceArray<T>::Of({kNan, kNan, 1, 1});
  ReluForward<T>(this->stream(), 4, y.get());
  ReluBackward<T>(this->stream(), 4, y.get(), dy.get(), dy.get());
  ASSERT_TRUE(this->Finish());
  EXPECT_TRUE(std::isnan(y.Floats()[0]));
  EXPECT_EQ(y.Floats()[2], 0);
  EXPECT_EQ(y.Floats()[3], kInfinity);
  EXPECT_TRUE(std::isnan(dy.Floats()[0]));
  EXPECT_TRUE(std::isnan(dy.Floats()[1]));
}

TYPED_TEST(ActivationsTest, DropoutDropsWhatACpuDrops) {
  using T = TypeParam;
  const std::vector<int64_t> ids = {3, 1, int64_t{1} << 40, -4};
  for (double rate : {0.0, 0.1, 0.75}) {
    for (int64_t per_sample : {1, 8, 77, 2064, 5000}) {
      for (int64_t offset : {0, 1}) {
        const int64_t count = 4 * per_sample;
        const DropoutOperands dropout(rate, 5, ids, per_sample);
        const std::vector<float> x = RoundedTo<T>(Random<float>(count, 1));
        const auto device_x = DeviceArray<T>::Of(x, offset);
        const DeviceArray<T> y(count, offset);
        ApplyDropout<T>(this->stream(), dropout.on_device(), 4, device_x.get(),
                        y.get());
        ApplyDropout<T>(this->stream(), dropout.on_device(), 4, device_x.get(),
                        device_x.get());
        ASSERT_TRUE(this->Finish());
        std::vector<float> want = Unwritten<float>(count);
        reference::ApplyDropout<float>(dropout.on_host(), 4, x.data(),
                                       want.data());
        const std::vector<float> got = y.Floats();
        ExpectNear<T>(got, want, "y");
        for (size_t i = 0; i < got.size(); ++i)
          ASSERT_EQ(got[i] == 0, want[i] == 0) << i;
        EXPECT_EQ(device_x.Floats(), got);
      }
    }
  }
}

TYPED_TEST(ActivationsTest, DropoutKeepsNan) {
  using T = TypeParam;
  const DropoutOperands dropout(0.5, 1, {1}, 64);
  const auto x = DeviceArray<T>::Of(std::vector<float>(64, kNan));
  ApplyDropout<T>(this->stream(), dropout.on_device(), 1, x.get(), x.get());
  ASSERT_TRUE(this->Finish());
  for (float value : x.Floats()) EXPECT_TRUE(std::isnan(value));
}

TYPED_TEST(ActivationsTest, DropoutOfNoSamplesDoesNothing) {
  ApplyDropout<TypeParam>(this->stream(), {0.5, nullptr, 1, nullptr, 64}, 0,
                          nullptr, nullptr);
  EXPECT_TRUE(this->Finish());
}

TYPED_TEST(ActivationsTest, PixelsBecomeFractions) {
  using T = TypeParam;
  for (int64_t count : {0, 5, 256, 1000}) {
    for (int64_t offset : {0, 1}) {
      std::vector<uint8_t> pixels(static_cast<size_t>(count));
      std::vector<float> want(pixels.size());
      for (size_t i = 0; i < pixels.size(); ++i) {
        pixels[i] = static_cast<uint8_t>(i);
        want[i] = static_cast<float>(pixels[i]) / 255.0f;
      }
      const DeviceArray<uint8_t> device_pixels(pixels, offset);
      const DeviceArray<T> y(count, offset);
      PixelsForward<T>(this->stream(), count, device_pixels.get(), y.get());
      ASSERT_TRUE(this->Finish());
      EXPECT_EQ(y.Floats(), RoundedTo<T>(want));
    }
  }
}

TYPED_TEST(ActivationsTest, PixelsAreNormalizedByChannel) {
  const PixelScales scales = {2, {0.5f, 2.0f}, {-1.0f, 1.0f}};
  const DeviceArray<uint8_t> bytes(std::vector<uint8_t>{0, 1, 2, 100});
  const DeviceArray<TypeParam> y(4);
  NormalizePixels<TypeParam>(this->stream(), 2, scales, bytes.get(), y.get());
  ASSERT_TRUE(this->Finish());
  EXPECT_EQ(y.Floats(), RoundedTo<TypeParam>({-1, 3, 0, 201}));
}

}  // namespace
}  // namespace ringmaster::cuda
