#include "worker/nn/cuda/batch_norm.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/testing/reference_resnet_ops.h"

namespace ringmaster::cuda {
namespace {

using reference::AsDoubles;
using reference::Doubles;

std::vector<float> Floats(const Doubles& values) {
  return {values.begin(), values.end()};
}

template <typename T>
class BatchNormTest : public DeviceTest {
 protected:
  void ExpectMatchesReference(const BatchNormShape& shape, bool has_branch,
                              bool rectifies) {
    SCOPED_TRACE(testing::Message()
                 << shape.batch << "x" << shape.pixels << "x" << shape.channels
                 << ", branch " << has_branch << ", rectifies " << rectifies);
    const int64_t count = shape.batch * shape.pixels * shape.channels;
    const int64_t channels = shape.channels;
    std::vector<float> shifted = Random<float>(count, 1);
    for (float& value : shifted) value += 2;
    const auto x = RoundedTo<T>(shifted);
    const auto gamma = RoundedTo<T>(Random<float>(channels, 2));
    const auto beta = RoundedTo<T>(Random<float>(channels, 3));
    const auto branch = RoundedTo<T>(Random<float>(count, 4));
    const auto dy = RoundedTo<T>(Random<float>(count, 5));
    const auto device_x = DeviceArray<T>::Of(x);
    const auto device_gamma = DeviceArray<T>::Of(gamma);
    const auto device_beta = DeviceArray<T>::Of(beta);
    const auto device_branch = DeviceArray<T>::Of(branch);
    const auto device_dy = DeviceArray<T>::Of(dy);
    const DeviceArray<T> y(count), dx(count);
    const DeviceArray<float> mean(shape.groups() * channels),
        variance(shape.groups() * channels), dgamma(channels), dbeta(channels),
        scratch(BatchNormScratchElems(stream(), shape));
    BatchNormForward<T>(stream(), shape, device_x.get(), device_gamma.get(),
                        device_beta.get(),
                        {has_branch ? device_branch.get() : nullptr, rectifies},
                        scratch.get(), y.get(), mean.get(), variance.get());
    BatchNormBackward<T>(stream(), shape, Write::kSet, device_dy.get(),
                         rectifies ? y.get() : nullptr, device_x.get(),
                         device_gamma.get(), mean.get(), variance.get(),
                         scratch.get(), dx.get(), dgamma.get(), dbeta.get(),
                         has_branch ? device_dy.get() : nullptr);  // in place
    ASSERT_TRUE(Finish());
    static_cast<void>(scratch.Read());
    reference::Norm norm = reference::NormForward(
        shape, AsDoubles(x), AsDoubles(gamma), AsDoubles(beta),
        has_branch ? AsDoubles(branch) : Doubles(), rectifies);
    ExpectNear<T>(y.Floats(), Floats(norm.y), "y");
    ExpectNear<float>(mean.Floats(), Floats(norm.mean), "mean");
    EXPECT_LE(RelativeError(variance.Floats(), Floats(norm.variance)), 1e-5);
    const reference::NormGradients want = reference::NormBackward(
        shape, norm, AsDoubles(dy), AsDoubles(x), AsDoubles(gamma), rectifies);
    // A difference of larger numbers.
    EXPECT_LE(RelativeError(dx.Floats(), Floats(want.dx)), 10 * kTolerance<T>);
    EXPECT_LE(RelativeError(dgamma.Floats(), Floats(want.dgamma)), 1e-4);
    ExpectNear<float>(dbeta.Floats(), Floats(want.dbeta), "dbeta");
    if (!has_branch) return;
    EXPECT_EQ(device_dy.Floats(), Floats(want.dbranch));
  }
};
TYPED_TEST_SUITE(BatchNormTest, ElementTypes);

TYPED_TEST(BatchNormTest, MatchesTheReference) {
  for (const BatchNormShape& shape : std::vector<BatchNormShape>{
           {3, 20, 5}, {4, 9, 64}, {5, 7, 40, 2}, {2, 100, 8}}) {
    for (const bool has_branch : {false, true}) {
      for (const bool rectifies : {false, true})
        this->ExpectMatchesReference(shape, has_branch, rectifies);
    }
  }
}

}  // namespace
}  // namespace ringmaster::cuda
