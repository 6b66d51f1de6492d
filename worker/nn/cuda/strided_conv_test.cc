#include "worker/nn/cuda/strided_conv.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "common/status/status_macros.h"
#include "gtest/gtest.h"
#include "worker/nn/cuda/cudnn_convolution.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/cuda/testing/matmul_testing.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/testing/reference_resnet_ops.h"

namespace ringmaster::cuda {
namespace {

using reference::AsDoubles;
using reference::Doubles;

std::vector<float> Sum(const Doubles& a, const std::vector<float>& b) {
  std::vector<float> sum(b);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<float>(a[i]);
  return sum;
}

std::vector<float> Floats(const Doubles& values) {
  return {values.begin(), values.end()};
}

template <typename T>
class StridedConvTest : public MatmulDeviceTest {
 protected:
  // From here on by cuDNN, as far as it can. NOT_FOUND: it is not installed.
  absl::Status UseCudnn() {
    ASSIGN_OR_RETURN(
        cudnn_, CudnnConvolution::Create(KernelChoice::kCudnn, this->device(),
                                         this->stream()));
    return absl::OkStatus();
  }
  void ExpectMatchesReference(const StridedConvShape& shape, Write write) {
    SCOPED_TRACE(testing::Message()
                 << shape.height << "x" << shape.width << "x" << shape.in
                 << " to " << shape.out << ", kernel " << shape.kernel
                 << ", stride " << shape.stride);
    const int64_t in_elems = shape.batch * shape.in_pixels() * shape.in;
    const int64_t out_elems = shape.batch * shape.out_pixels() * shape.out;
    const auto x = RoundedTo<T>(Random<float>(in_elems, 1));
    const auto weight = RoundedTo<T>(Random<float>(shape.weight_elems(), 2));
    const auto dy = RoundedTo<T>(Random<float>(out_elems, 3));
    const auto dx_before = RoundedTo<T>(Before<float>(write, in_elems));
    const auto dweight_before = Before<float>(write, shape.weight_elems());
    CudaCompute compute = this->compute();
    compute.cudnn_convolution = cudnn_.get();
    const auto device_x = DeviceArray<T>::Of(x);
    const auto device_weight = DeviceArray<T>::Of(weight);
    const auto device_dy = DeviceArray<T>::Of(dy);
    const int64_t elems = StridedConvScratchElems(compute, shape);
    const DeviceArray<T> scratch(elems), y(out_elems);
    const auto dx = DeviceArray<T>::Of(dx_before);
    const auto dweight = DeviceArray<float>::Of(dweight_before);
    const StridedConvScratch<T> memory = {scratch.get(), elems};
    StridedConvForward<T>(compute, shape, device_x.get(), device_weight.get(),
                          memory, y.get());
    StridedConvBackwardInput<T>(compute, shape, device_dy.get(),
                                device_weight.get(), memory, write, dx.get());
    StridedConvBackwardWeight<T>(compute, shape, write, device_dy.get(),
                                 device_x.get(), memory, dweight.get());
    ASSERT_TRUE(this->Finish());
    static_cast<void>(scratch.Read());  // its guards
    ExpectNear<T>(
        y.Floats(),
        Floats(reference::ConvForward(shape, AsDoubles(x), AsDoubles(weight))),
        "y");
    const Doubles want_dx =
        reference::ConvBackwardInput(shape, AsDoubles(dy), AsDoubles(weight));
    const Doubles want_dweight =
        reference::ConvBackwardWeight(shape, AsDoubles(dy), AsDoubles(x));
    const bool is_added = write == Write::kAdd;
    ExpectNear<T>(dx.Floats(),
                  is_added ? Sum(want_dx, dx_before) : Floats(want_dx), "dx");
    ExpectNear<float>(
        dweight.Floats(),
        is_added ? Sum(want_dweight, dweight_before) : Floats(want_dweight),
        "dweight");
  }
  void ExpectAllMatch() {
    for (const StridedConvShape& shape :
         std::vector<StridedConvShape>{{2, 9, 8, 3, 5, 7, 2},
                                       {2, 7, 6, 8, 16, 3, 1},
                                       {3, 7, 8, 5, 3, 3, 2},
                                       {2, 6, 5, 8, 16, 1, 1},
                                       {2, 7, 6, 8, 8, 1, 2},
                                       {1, 1, 1, 2, 3, 3, 2}}) {
      for (const Write write : {Write::kSet, Write::kAdd})
        ExpectMatchesReference(shape, write);
    }
  }

 private:
  std::unique_ptr<CudnnConvolution> cudnn_;  // null: ours
};
TYPED_TEST_SUITE(StridedConvTest, ElementTypes);

TYPED_TEST(StridedConvTest, MatchesTheReference) { this->ExpectAllMatch(); }

TYPED_TEST(StridedConvTest, MatchesTheReferenceByCudnn) {
  const absl::Status status = this->UseCudnn();
  if (absl::IsNotFound(status)) GTEST_SKIP() << status;
  ASSERT_TRUE(status.ok()) << status;
  this->ExpectAllMatch();
}

}  // namespace
}  // namespace ringmaster::cuda
