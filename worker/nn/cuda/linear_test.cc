#include "worker/nn/cuda/linear.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "worker/nn/cuda/bias.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/cuda/testing/matmul_testing.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/testing/reference_ops.h"

namespace ringmaster::cuda {
namespace {

template <typename T>
class LinearTest : public MatmulDeviceTest {};
TYPED_TEST_SUITE(LinearTest, ElementTypes);

const LinearShape kShapes[] = {{1, 1, 1},
                               {5, 7, 3},
                               {24, 16, 40},
                               {1, 1, 1, WeightLayout::kInOut},
                               {5, 7, 3, WeightLayout::kInOut},
                               {24, 16, 40, WeightLayout::kInOut}};

template <typename T>
std::vector<float> RandomOperand(int64_t count, uint64_t key) {
  return RoundedTo<T>(Random<float>(count, key));
}

TYPED_TEST(LinearTest, ForwardMatchesReference) {
  using T = TypeParam;
  for (const LinearShape& shape : kShapes) {
    const int64_t count = shape.batch * shape.out;
    const auto x = RandomOperand<T>(shape.batch * shape.in, 1);
    const auto weight = RandomOperand<T>(shape.in * shape.out, 2);
    const auto bias = RandomOperand<T>(shape.out, 3);
    std::vector<float> want = Unwritten<float>(count);
    std::vector<float> want_plain = want, want_pre = want, want_gelu = want;
    reference::LinearForward<float>(shape, x.data(), weight.data(), bias.data(),
                                    want.data());
    reference::LinearForward<float>(shape, x.data(), weight.data(), nullptr,
                                    want_plain.data());
    reference::LinearGeluForward<float>(shape, x.data(), weight.data(),
                                        bias.data(), want_pre.data(),
                                        want_gelu.data());
    const auto device_x = DeviceArray<T>::Of(x);
    const auto device_weight = DeviceArray<T>::Of(weight);
    const auto device_bias = DeviceArray<T>::Of(bias);
    const DeviceArray<T> y(count), plain(count), pre(count), gelu(count);
    const CudaCompute compute = this->compute();
    LinearForward<T>(compute, shape, device_x.get(), device_weight.get(),
                     device_bias.get(), y.get());
    LinearForward<T>(compute, shape, device_x.get(), device_weight.get(),
                     nullptr, plain.get());
    LinearGeluForward<T>(compute, shape, device_x.get(), device_weight.get(),
                         device_bias.get(), pre.get(), gelu.get());
    ASSERT_TRUE(this->Finish());
    ExpectNear<T>(y.Floats(), want, "y");
    ExpectNear<T>(plain.Floats(), want_plain, "without a bias");
    ExpectNear<T>(pre.Floats(), want_pre, "pre");
    EXPECT_LE(RelativeError(gelu.Floats(), want_gelu), 2 * kTolerance<T>);
  }
}

TYPED_TEST(LinearTest, BackwardMatchesReference) {
  using T = TypeParam;
  for (const LinearShape& shape : kShapes) {
    const int64_t in_count = shape.batch * shape.in;
    const int64_t weights = shape.in * shape.out;
    const auto dy = RandomOperand<T>(shape.batch * shape.out, 1);
    const auto x = RandomOperand<T>(in_count, 2);
    const auto weight = RandomOperand<T>(weights, 3);
    std::vector<float> want_dx = Unwritten<float>(in_count);
    reference::LinearBackwardInput<float>(shape, dy.data(), weight.data(),
                                          want_dx.data());
    std::vector<float> want_dpre = Unwritten<float>(in_count);
    reference::GeluBackward<float>(in_count, x.data(), want_dx.data(),
                                   want_dpre.data());
    const auto device_dy = DeviceArray<T>::Of(dy);
    const auto device_x = DeviceArray<T>::Of(x);
    const auto device_weight = DeviceArray<T>::Of(weight);
    const DeviceArray<T> dx(in_count), dpre(in_count);
    const CudaCompute compute = this->compute();
    LinearBackwardInput<T>(compute, shape, device_dy.get(), device_weight.get(),
                           dx.get());
    LinearGeluBackwardInput<T>(compute, shape, device_dy.get(),
                               device_weight.get(), device_x.get(), dpre.get());
    ASSERT_TRUE(this->Finish());
    ExpectNear<T>(dx.Floats(), want_dx, "dx");
    EXPECT_LE(RelativeError(dpre.Floats(), want_dpre), 2 * kTolerance<T>);
    for (const Write write : {Write::kSet, Write::kAdd}) {
      const std::vector<float> before = Before<float>(write, weights);
      std::vector<float> want = Unwritten<float>(weights);
      reference::LinearBackwardWeight<float>(shape, dy.data(), x.data(),
                                             want.data());
      if (write == Write::kAdd) {
        for (int64_t i = 0; i < weights; ++i) want[i] += before[i];
      }
      const auto dweight = DeviceArray<float>::Of(before);
      LinearBackwardWeight<T>(compute, shape, write, device_dy.get(),
                              device_x.get(), dweight.get());
      ASSERT_TRUE(this->Finish());
      ExpectNear<float>(dweight.Floats(), want, "dweight");
      const std::vector<float> before_bias = Before<float>(write, shape.out);
      std::vector<float> want_bias = Unwritten<float>(shape.out);
      reference::LinearBackwardBias<float>(shape, dy.data(), want_bias.data());
      if (write == Write::kAdd) {
        for (int64_t i = 0; i < shape.out; ++i) want_bias[i] += before_bias[i];
      }
      const auto dbias = DeviceArray<float>::Of(before_bias);
      LinearBackwardBias<T>(compute, shape, write, device_dy.get(),
                            dbias.get());
      ASSERT_TRUE(this->Finish());
      ExpectNear<float>(dbias.Floats(), want_bias, "dbias");
      // Both results come from one call; the second call takes whichever way
      // was found faster.
      for (int calls = 0; calls < 2; ++calls) {
        const auto both_dweight = DeviceArray<float>::Of(before);
        const auto both_dbias = DeviceArray<float>::Of(before_bias);
        LinearBackwardParameters<T>(compute, shape, write, device_dy.get(),
                                    device_x.get(), both_dweight.get(),
                                    both_dbias.get());
        ASSERT_TRUE(this->Finish());
        ExpectNear<float>(both_dweight.Floats(), want, "dweight of both");
        ExpectNear<float>(both_dbias.Floats(), want_bias, "dbias of both");
      }
    }
  }
}

TYPED_TEST(LinearTest, GradientOfAWideBiasIsMadeInParts) {
  using T = TypeParam;
  // These rows have too many sums for the scratch.
  const LinearShape shape = {300, 1, 40};
  auto small = this->Create({.workspace_bytes = 2 * 40 * sizeof(float)});
  ASSERT_TRUE(small.ok()) << small.status();
  ASSERT_GT(BiasBackwardScratchElems(shape.batch, shape.out),
            (*small)->scratch().elems);
  const auto dy = RandomOperand<T>(shape.batch * shape.out, 1);
  std::vector<float> want = Unwritten<float>(shape.out);
  reference::LinearBackwardBias<float>(shape, dy.data(), want.data());
  const auto device_dy = DeviceArray<T>::Of(dy);
  const DeviceArray<float> dbias(shape.out);
  LinearBackwardBias<T>({.stream = this->stream(), .matmul = **small}, shape,
                        Write::kSet, device_dy.get(), dbias.get());
  ASSERT_TRUE(this->Finish());
  ExpectNear<float>(dbias.Floats(), want, "dbias");
}

TYPED_TEST(LinearTest, EmptyBatchHasNoGradient) {
  using T = TypeParam;
  const DeviceArray<T> none(0);
  const DeviceArray<float> dweight(6), dbias(3);
  LinearBackwardWeight<T>(this->compute(), {0, 2, 3}, Write::kSet, none.get(),
                          none.get(), dweight.get());
  LinearBackwardBias<T>(this->compute(), {0, 2, 3}, Write::kSet, none.get(),
                        dbias.get());
  ASSERT_TRUE(this->Finish());
  EXPECT_EQ(dbias.Floats(), std::vector<float>(3, 0));
  const DeviceArray<float> both_dweight(6), both_dbias(3);
  LinearBackwardParameters<T>(this->compute(), {0, 2, 3}, Write::kSet,
                              none.get(), none.get(), both_dweight.get(),
                              both_dbias.get());
  ASSERT_TRUE(this->Finish());
  EXPECT_EQ(both_dweight.Floats(), std::vector<float>(6, 0));
  EXPECT_EQ(both_dbias.Floats(), std::vector<float>(3, 0));
  EXPECT_EQ(dweight.Floats(), std::vector<float>(6, 0));
}

}  // namespace
}  // namespace ringmaster::cuda
