// Tests of the parts of CUDA that run without a GPU run wherever CUDA is built;
// the rest skip with a reason where there is no GPU.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/device/cuda/cuda_status.h"
#include "worker/device/cuda/nccl_library.h"
#include "worker/device/cuda/scale.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

struct DeviceFree {
  void operator()(float* data) const { cudaFree(data); }
};

TEST(CudaStatusTest, SaysWhatToDoAboutAnError) {
  EXPECT_TRUE(CudaStatus(cudaSuccess, "copy").ok());
  EXPECT_EQ(CudaStatus(cudaErrorNoDevice, "open").code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CudaStatus(cudaErrorMemoryAllocation, "arena").code(),
            absl::StatusCode::kResourceExhausted);
  const absl::Status status = CudaStatus(cudaErrorIllegalAddress, "copy");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("copy: cudaErrorIllegalAddress: "));
}

TEST(NcclLibraryTest, LoadsAndReportsItsVersion) {
  const auto nccl = NcclLibrary::Load();
  if (absl::IsNotFound(nccl.status())) GTEST_SKIP() << nccl.status();
  ASSERT_TRUE(nccl.ok()) << nccl.status();
  EXPECT_GE(nccl->version(), NcclLibrary::kOldestVersion);
}

TEST(NcclLibraryTest, SaysWhatToDoAboutAnError) {
  const auto nccl = NcclLibrary::Load();
  if (absl::IsNotFound(nccl.status())) GTEST_SKIP() << nccl.status();
  ASSERT_TRUE(nccl.ok()) << nccl.status();
  EXPECT_TRUE(nccl->ToStatus(ncclSuccess, "init").ok());
  EXPECT_EQ(nccl->ToStatus(ncclRemoteError, "init").code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(nccl->ToStatus(ncclInvalidUsage, "init").code(),
            absl::StatusCode::kFailedPrecondition);
  const absl::Status status = nccl->ToStatus(ncclInternalError, "init");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("init: internal error"));
}

class ScaleTest : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    int devices = 0;
    const absl::Status status =
        CudaStatus(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    if (absl::IsFailedPrecondition(status)) GTEST_SKIP() << status;
    ASSERT_TRUE(status.ok()) << status;
  }
};

TEST_P(ScaleTest, MultipliesEveryElement) {
  const int64_t count = GetParam();
  std::vector<float> host(count);
  for (int64_t i = 0; i < count; ++i) host[i] = static_cast<float>(i % 1000);
  const size_t bytes = count * sizeof(float);
  float* raw = nullptr;
  ASSERT_EQ(cudaMalloc(&raw, bytes + sizeof(float)), cudaSuccess);
  const std::unique_ptr<float, DeviceFree> device(raw);
  ASSERT_EQ(cudaMemcpy(raw, host.data(), bytes, cudaMemcpyHostToDevice),
            cudaSuccess);

  ASSERT_EQ(ScaleOnDevice(raw, count, 0.25f, /*stream=*/nullptr), cudaSuccess);

  ASSERT_EQ(cudaMemcpy(host.data(), raw, bytes, cudaMemcpyDeviceToHost),
            cudaSuccess);
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(host[i], static_cast<float>(i % 1000) * 0.25f) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, ScaleTest,
                         ::testing::Values(0, 1, 255, 257, 3'000'017));

}  // namespace
}  // namespace ringmaster
