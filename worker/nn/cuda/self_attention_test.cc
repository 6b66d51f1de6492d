#include "worker/nn/cuda/self_attention.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/logging/testing/log_capture.h"
#include "gtest/gtest.h"
#include "worker/nn/cuda/attention.h"
#include "worker/nn/cuda/cudnn_attention.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/cuda/testing/matmul_testing.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/testing/reference_attention.h"

namespace ringmaster::cuda {
namespace {

const std::vector<int64_t> kSampleIds = {41, 7};

int64_t OutCount(AttentionShape s) {
  return s.samples * s.window * s.heads * s.head_dim;
}
int64_t RowCount(AttentionShape s) { return s.samples * s.heads * s.window; }

struct Result {
  std::vector<float> out;
  std::vector<float> log_sum_exp;
  std::vector<float> dqkv;

  bool operator==(const Result&) const = default;
};

template <typename T>
class SelfAttentionTest : public MatmulDeviceTest {
 protected:
  // Compares with the reference, whichever kernels ran.
  void ExpectMatchesReference(const CudaCompute& compute, AttentionShape shape,
                              double rate, bool is_repeatable = true) {
    const std::vector<float> qkv =
        RoundedTo<T>(Random<float>(3 * OutCount(shape), 1, 3));
    const std::vector<float> dout =
        RoundedTo<T>(Random<float>(OutCount(shape), 2));
    const DropoutOperands dropout(rate, 99, kSampleIds,
                                  shape.heads * shape.window * shape.window);
    Result want = {Unwritten<float>(OutCount(shape)),
                   Unwritten<float>(RowCount(shape)),
                   Unwritten<float>(3 * OutCount(shape))};
    reference::AttentionForward<float>(shape, dropout.on_host(), qkv.data(),
                                       want.out.data(),
                                       want.log_sum_exp.data());
    reference::AttentionBackward<float>(shape, dropout.on_host(), dout.data(),
                                        qkv.data(), want.dqkv.data());
    const Result got = Run(compute, shape, dropout.on_device(), qkv, dout);
    // Probabilities are rounded, too.
    const double most = sizeof(T) == sizeof(float) ? 1e-5 : 4 * kTolerance<T>;
    EXPECT_LE(RelativeError(got.out, want.out), most) << "out";
    EXPECT_LE(RelativeError(got.log_sum_exp, want.log_sum_exp), 1e-4);
    EXPECT_LE(RelativeError(got.dqkv, want.dqkv), most) << "dqkv";
    if (!is_repeatable) return;
    EXPECT_TRUE(Run(compute, shape, dropout.on_device(), qkv, dout) == got)
        << "is not the same each time";
  }

 private:
  Result Run(const CudaCompute& compute, AttentionShape shape,
             const DeviceDropout& dropout, const std::vector<float>& qkv,
             const std::vector<float>& dout) {
    const auto device_qkv = DeviceArray<T>::Of(qkv);
    const auto device_dout = DeviceArray<T>::Of(dout);
    const DeviceArray<T> out(OutCount(shape)), dqkv(3 * OutCount(shape));
    const DeviceArray<float> log_sum_exp(RowCount(shape)),
        scratch(AttentionScratchElems(this->stream(), shape));
    AttentionForward<T>(compute, shape, dropout, device_qkv.get(), out.get(),
                        log_sum_exp.get());
    AttentionBackward<T>(compute, shape, dropout, device_dout.get(),
                         device_qkv.get(), out.get(), log_sum_exp.get(),
                         scratch.get(), dqkv.get());
    EXPECT_TRUE(this->Finish());
    return {out.Floats(), log_sum_exp.Floats(), dqkv.Floats()};
  }
};
TYPED_TEST_SUITE(SelfAttentionTest, ElementTypes);

TYPED_TEST(SelfAttentionTest, MatchesReferenceWithoutCudnn) {
  for (const double rate : {0.0, 0.3})
    this->ExpectMatchesReference(this->compute(), {2, 40, 2, 16}, rate);
}

TYPED_TEST(SelfAttentionTest, MatchesReferenceWithCudnn) {
  auto cudnn = CudnnAttention::Create(KernelChoice::kCudnn, this->device(),
                                      this->stream());
  if (absl::IsNotFound(cudnn.status())) GTEST_SKIP() << cudnn.status();
  ASSERT_TRUE(cudnn.ok()) << cudnn.status();
  CudaCompute compute = this->compute();
  compute.cudnn_attention = cudnn->get();
  const LogCapture log;
  for (const AttentionShape& shape :
       {AttentionShape{2, 128, 3, 64}, AttentionShape{1, 200, 2, 128},
        AttentionShape{2, 77, 2, 32}}) {
    this->ExpectMatchesReference(compute, shape, 0);
  }
  EXPECT_TRUE(log.lines().empty()) << log.lines()[0];
  // Ours, since cuDNN's masks are others.
  this->ExpectMatchesReference(compute, {2, 64, 2, 64}, 0.3);
}

TYPED_TEST(SelfAttentionTest, CudnnTakesBatchesInSlicesAndSumsInAnyOrder) {
  constexpr int64_t kOneSample = 2 * 2 * 128 * 128;
  for (const int64_t most_scratch_bytes :
       {2 * kOneSample, kOneSample, int64_t{1}}) {
    auto cudnn = CudnnAttention::Create(KernelChoice::kCudnn, this->device(),
                                        this->stream(), most_scratch_bytes);
    if (absl::IsNotFound(cudnn.status())) GTEST_SKIP() << cudnn.status();
    ASSERT_TRUE(cudnn.ok()) << cudnn.status();
    CudaCompute compute = this->compute();
    compute.cudnn_attention = cudnn->get();
    this->ExpectMatchesReference(compute, {3, 128, 2, 64}, 0,
                                 most_scratch_bytes >= kOneSample);
  }
}

TYPED_TEST(SelfAttentionTest, CudnnThatCannotIsSaidOnce) {
  auto cudnn = CudnnAttention::Create(KernelChoice::kCudnn, this->device(),
                                      this->stream());
  if (absl::IsNotFound(cudnn.status())) GTEST_SKIP() << cudnn.status();
  ASSERT_TRUE(cudnn.ok()) << cudnn.status();
  CudaCompute compute = this->compute();
  compute.cudnn_attention = cudnn->get();
  const LogCapture log;
  this->ExpectMatchesReference(compute, {1, 64, 8, 3}, 0);
  // One for each pass, although each was run twice.
  EXPECT_EQ(log.lines().size(), sizeof(TypeParam) == sizeof(float) ? 0u : 2u);
}

TEST(CudnnAttentionSliceTest, ScratchBoundsTheSamplesOfAPlan) {
  const auto slice = [](AttentionShape shape) {
    return CudnnAttention::BackwardSlice(shape, int64_t{2} << 30);
  };
  const auto order = [](AttentionShape shape) {
    return CudnnAttention::OrderOf(shape, int64_t{2} << 30);
  };
  // A sample takes 24 MiB.
  EXPECT_EQ(slice({0, 1024, 12, 64}), 0);
  EXPECT_EQ(slice({64, 1024, 12, 64}), 64);
  EXPECT_EQ(slice({85, 1024, 12, 64}), 85);
  EXPECT_EQ(slice({86, 1024, 12, 64}), 43);
  EXPECT_EQ(slice({200, 1000, 12, 64}), 67);
  EXPECT_EQ(slice({3, 8192, 12, 64}), 1);
  EXPECT_EQ(order({3, 9408, 12, 64}), GradientOrder::kFixed);
  // One sample would take more: all at once, in any order.
  EXPECT_EQ(order({3, 9472, 12, 64}), GradientOrder::kAny);
  EXPECT_EQ(slice({3, 9472, 12, 64}), 3);
}

class CudnnChoiceTest : public DeviceTest {
 protected:
  absl::StatusOr<std::unique_ptr<CudnnAttention>> Create(KernelChoice kernels) {
    return CudnnAttention::Create(kernels, device(), stream());
  }
};

TEST_F(CudnnChoiceTest, OursNeedsNoCudnn) {
  const LogCapture log;
  const auto ours = Create(KernelChoice::kOurs);
  ASSERT_TRUE(ours.ok()) << ours.status();
  EXPECT_EQ(*ours, nullptr);
  EXPECT_TRUE(log.lines().empty());
}

TEST_F(CudnnChoiceTest, AutoDoesWithoutAndSaysSo) {
  const LogCapture log;
  const auto cudnn = Create(KernelChoice::kCudnn);
  const auto automatic = Create(KernelChoice::kAuto);
  ASSERT_TRUE(automatic.ok()) << automatic.status();
  EXPECT_EQ(*automatic == nullptr, !cudnn.ok());
  EXPECT_EQ(log.lines().size(), cudnn.ok() ? 0u : 1u);
  EXPECT_EQ(log.Contains("attention.no_cudnn"), !cudnn.ok());
}

}  // namespace
}  // namespace ringmaster::cuda
