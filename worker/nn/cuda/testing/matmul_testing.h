// Helpers for tests of operators that multiply matrices: a CudaMatmul.
//
// Thread-safety: thread-compatible.
#ifndef RINGMASTER_WORKER_NN_CUDA_TESTING_MATMUL_TESTING_H_
#define RINGMASTER_WORKER_NN_CUDA_TESTING_MATMUL_TESTING_H_

#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "worker/nn/cuda/cuda_compute.h"
#include "worker/nn/cuda/matmul.h"
#include "worker/nn/cuda/testing/device_operands.h"

namespace ringmaster::cuda {

// A DeviceTest with a CudaMatmul on its stream; skipped, with the reason, where
// there is no GPU or no cuBLASLt.
class MatmulDeviceTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto matmul = Create({});
    if (absl::IsNotFound(matmul.status())) GTEST_SKIP() << matmul.status();
    ASSERT_TRUE(matmul.ok()) << matmul.status();
    matmul_ = *std::move(matmul);
  }
  absl::StatusOr<std::unique_ptr<CudaMatmul>> Create(MatmulOptions options) {
    return CudaMatmul::Create(device(), stream(), std::move(options));
  }
  CudaMatmul& matmul() { return *matmul_; }
  CudaCompute compute() { return {.stream = stream(), .matmul = *matmul_}; }

 private:
  std::unique_ptr<CudaMatmul> matmul_;
};

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_TESTING_MATMUL_TESTING_H_
