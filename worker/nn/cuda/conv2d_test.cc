#include "worker/nn/cuda/conv2d.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/logging/testing/log_capture.h"
#include "common/status/status_macros.h"
#include "gtest/gtest.h"
#include "worker/nn/cuda/cudnn_convolution.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/cuda/testing/matmul_testing.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/testing/reference_conv.h"

namespace ringmaster::cuda {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

int64_t Pixels(const Conv2dShape& s) { return s.batch * s.height * s.width; }

int64_t Weights(const Conv2dShape& s) {
  return s.out * s.kernel * s.kernel * s.in;
}

struct Inputs {
  std::vector<float> x;
  std::vector<float> weight;
  std::vector<float> bias;
  std::vector<float> dy;
};

template <typename T>
Inputs RandomInputs(const Conv2dShape& s) {
  return {RoundedTo<T>(Random<float>(Pixels(s) * s.in, 1)),
          RoundedTo<T>(Random<float>(Weights(s), 2)),
          RoundedTo<T>(Random<float>(s.out, 3)),
          RoundedTo<T>(Random<float>(Pixels(s) * s.out, 4))};
}

struct Outputs {
  std::vector<float> y;
  std::vector<float> dx;
  std::vector<float> dweight;
  std::vector<float> dbias;
};

Outputs RunReference(const Conv2dShape& shape, const Inputs& in) {
  Outputs out = {Unwritten<float>(in.dy.size()), Unwritten<float>(in.x.size()),
                 Unwritten<float>(in.weight.size()),
                 Unwritten<float>(in.bias.size())};
  reference::Conv2dForward<float>(shape, in.x.data(), in.weight.data(),
                                  in.bias.data(), out.y.data());
  reference::Conv2dBackwardParameters<float>(
      shape, in.dy.data(), in.x.data(), out.dweight.data(), out.dbias.data());
  reference::Conv2dBackwardInput<float>(shape, in.dy.data(), in.weight.data(),
                                        out.dx.data());
  return out;
}

void AddTo(const std::vector<float>& what, std::vector<float>& to) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += what[i];
}

template <typename T>
class Conv2dTest : public MatmulDeviceTest {
 protected:
  // From here on by cuDNN, as far as it can. NOT_FOUND: it is not installed.
  absl::Status UseCudnn() {
    ASSIGN_OR_RETURN(
        cudnn_, CudnnConvolution::Create(KernelChoice::kCudnn, this->device(),
                                         this->stream()));
    return absl::OkStatus();
  }
  void ExpectMatchesReference(const Conv2dShape& shape, int64_t scratch) {
    const Inputs in = RandomInputs<T>(shape);
    for (const Write write : {Write::kSet, Write::kAdd}) {
      SCOPED_TRACE(testing::Message() << shape.height << "x" << shape.width
                                      << ", scratch " << scratch);
      const Outputs got = Run(shape, scratch, write, in);
      Outputs want = RunReference(shape, in);
      if (write == Write::kAdd) {
        AddTo(Before<float>(write, Weights(shape)), want.dweight);
        AddTo(Before<float>(write, shape.out), want.dbias);
      }
      ExpectNear<T>(got.y, want.y, "y");
      ExpectNear<T>(got.dx, want.dx, "dx");
      ExpectNear<float>(got.dweight, want.dweight, "dweight");
      ExpectNear<float>(got.dbias, want.dbias, "dbias");
    }
  }
  Outputs Run(const Conv2dShape& shape, int64_t scratch_elems, Write write,
              const Inputs& in) {
    const auto x = DeviceArray<T>::Of(in.x);
    const auto weight = DeviceArray<T>::Of(in.weight);
    const auto bias = DeviceArray<T>::Of(in.bias);
    const auto dy = DeviceArray<T>::Of(in.dy);
    const DeviceArray<T> scratch(scratch_elems), y(Pixels(shape) * shape.out),
        dx(Pixels(shape) * shape.in);
    const auto dweight =
        DeviceArray<float>::Of(Before<float>(write, Weights(shape)));
    const auto dbias = DeviceArray<float>::Of(Before<float>(write, shape.out));
    const Conv2dScratch<T> elems = {scratch.get(), scratch_elems};
    CudaCompute compute = this->compute();
    compute.cudnn_convolution = cudnn_.get();
    Conv2dForward<T>(compute, shape, x.get(), weight.get(), bias.get(), elems,
                     y.get());
    Conv2dBackwardParameters<T>(compute, shape, write, dy.get(), x.get(), elems,
                                dweight.get(), dbias.get());
    Conv2dBackwardInput<T>(compute, shape, dy.get(), weight.get(), elems,
                           dx.get());
    EXPECT_TRUE(this->Finish());
    static_cast<void>(scratch.Read());  // its guards
    return {y.Floats(), dx.Floats(), dweight.Floats(), dbias.Floats()};
  }

 private:
  std::unique_ptr<CudnnConvolution> cudnn_;  // null: ours
};
TYPED_TEST_SUITE(Conv2dTest, ElementTypes);

TYPED_TEST(Conv2dTest, MatchesReferenceWithMuchAndLittleScratch) {
  for (const Conv2dShape& shape :
       {Conv2dShape{1, 1, 1, 1, 1, 1}, Conv2dShape{2, 5, 4, 3, 7, 3},
        Conv2dShape{2, 4, 6, 8, 16, 3}, Conv2dShape{1, 3, 2, 2, 4, 5},
        Conv2dShape{3, 1, 7, 16, 8, 1}}) {
    const int64_t least = LeastConv2dScratchElems(shape);
    const int64_t enough = Conv2dScratchElems(this->compute(), shape);
    ASSERT_LE(least, enough);
    for (const int64_t scratch : {least, (least + enough) / 2, enough})
      this->ExpectMatchesReference(shape, scratch);
  }
}

TYPED_TEST(Conv2dTest, MatchesReferenceWithCudnn) {
  const absl::Status status = this->UseCudnn();
  if (absl::IsNotFound(status)) GTEST_SKIP() << status;
  ASSERT_TRUE(status.ok()) << status;
  const LogCapture log;
  for (const Conv2dShape& shape :
       {Conv2dShape{2, 4, 6, 8, 16, 3}, Conv2dShape{4, 16, 16, 64, 32, 3},
        Conv2dShape{3, 8, 7, 16, 8, 1}, Conv2dShape{2, 9, 9, 8, 8, 5}}) {
    this->ExpectMatchesReference(shape,
                                 Conv2dScratchElems(this->compute(), shape));
  }
  EXPECT_TRUE(log.lines().empty()) << log.lines()[0];
  // As far as cuDNN can, and the rest by our own kernels.
  for (const Conv2dShape& shape :
       {Conv2dShape{1, 1, 1, 1, 1, 1}, Conv2dShape{2, 5, 4, 3, 7, 3},
        Conv2dShape{2, 8, 8, 3, 16, 3}}) {
    this->ExpectMatchesReference(shape,
                                 Conv2dScratchElems(this->compute(), shape));
  }
  const Conv2dShape empty = {0, 4, 4, 2, 3, 3};
  const Outputs got =
      this->Run(empty, Conv2dScratchElems(this->compute(), empty), Write::kSet,
                RandomInputs<TypeParam>(empty));
  EXPECT_EQ(got.dweight, std::vector<float>(Weights(empty), 0));
}

TYPED_TEST(Conv2dTest, EmptyBatchHasNoGradient) {
  const Conv2dShape shape = {0, 4, 4, 2, 3, 3};
  const Outputs got =
      this->Run(shape, Conv2dScratchElems(this->compute(), shape), Write::kSet,
                RandomInputs<TypeParam>(shape));
  EXPECT_EQ(got.dweight, std::vector<float>(Weights(shape), 0));
  EXPECT_EQ(got.dbias, std::vector<float>(3, 0));
}

TYPED_TEST(Conv2dTest, WhatIsNotANumberShowsAroundItself) {
  using T = TypeParam;
  const Conv2dShape shape = {1, 5, 5, 2, 3, 3};
  Inputs in = RandomInputs<T>(shape);
  in.x[(2 * 5 + 1) * 2] = std::numeric_limits<float>::quiet_NaN();
  const Outputs got = this->Run(
      shape, Conv2dScratchElems(this->compute(), shape), Write::kSet, in);
  for (int64_t row = 0; row < 5; ++row) {
    for (int64_t column = 0; column < 5; ++column) {
      const bool is_near = std::abs(row - 2) <= 1 && std::abs(column - 1) <= 1;
      EXPECT_EQ(std::isnan(got.y[(row * 5 + column) * 3]), is_near)
          << row << ", " << column;
    }
  }
}

class ConvolutionChoiceTest : public DeviceTest {
 protected:
  absl::StatusOr<std::unique_ptr<CudnnConvolution>> Create(
      KernelChoice choice) {
    return CudnnConvolution::Create(choice, device(), stream());
  }
};

TEST_F(ConvolutionChoiceTest, OursNeedsNoCudnn) {
  const LogCapture log;
  const auto ours = Create(KernelChoice::kOurs);
  ASSERT_TRUE(ours.ok()) << ours.status();
  EXPECT_EQ(*ours, nullptr);
  EXPECT_TRUE(log.lines().empty());
}

TEST_F(ConvolutionChoiceTest, AutoDoesWithoutAndSaysSo) {
  const LogCapture log;
  const auto cudnn = Create(KernelChoice::kCudnn);
  const auto automatic = Create(KernelChoice::kAuto);
  ASSERT_TRUE(automatic.ok()) << automatic.status();
  EXPECT_EQ(*automatic == nullptr, !cudnn.ok());
  EXPECT_EQ(log.lines().size(), cudnn.ok() ? 0u : 1u);
  EXPECT_EQ(log.Contains("convolution.no_cudnn"), !cudnn.ok());
}

TEST_F(ConvolutionChoiceTest, CudnnThatIsAskedForAndMissingIsRefused) {
  const auto cudnn = Create(KernelChoice::kCudnn);
  if (cudnn.ok()) GTEST_SKIP() << "there is a cuDNN";
  const std::string message(cudnn.status().message());
  EXPECT_THAT(message, HasSubstr("cudnn"));
  EXPECT_THAT(message, EndsWith("; install cuDNN, or let auto choose whose "
                                "kernels compute attention and convolutions"));
  EXPECT_THAT(message, Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace ringmaster::cuda
