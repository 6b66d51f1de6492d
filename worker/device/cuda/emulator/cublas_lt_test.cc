// Tests what the emulated cuBLASLt offers and refuses.
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/status/status.h"
#include "common/machine/shared_library.h"
#include "worker/device/cuda/cuda_libraries.h"
#include "worker/device/cuda/emulator/cublas_lt_problem.h"
#include "worker/device/cuda/emulator/emulator.h"

namespace ringmaster::cuda_emulator {
namespace {

class CublasLtTest : public ::testing::Test {
 protected:
  void SetUp() override { Reset(Settings()); }
  void TearDown() override { Reset(Settings()); }
};

TEST_F(CublasLtTest, OffersWhatFitsAlignmentAndWorkspace) {
  Problem p(Case{});
  EXPECT_EQ(p.Algorithms().size(), 3u);
  p.SetPreference(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{0});
  EXPECT_EQ(p.Algorithms().size(), 2u);
  p.SetPreference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, uint32_t{4});
  EXPECT_EQ(p.Algorithms().size(), 1u);
}

TEST_F(CublasLtTest, AnAlgorithmNeedsItsWorkspaceAndAlignment) {
  Problem p(Case{});
  const auto algorithms = p.Algorithms();
  ASSERT_EQ(algorithms.size(), 3u);
  ASSERT_GT(algorithms[1].workspaceSize, 0u);
  p.workspace_bytes = algorithms[1].workspaceSize - 1;
  EXPECT_EQ(p.Run(&algorithms[1].algo), CUBLAS_STATUS_INVALID_VALUE);
  p.workspace_bytes = algorithms[1].workspaceSize;
  EXPECT_EQ(p.Run(&algorithms[1].algo), CUBLAS_STATUS_SUCCESS);

  p.d.Set(CUBLASLT_MATRIX_LAYOUT_LD, int64_t{15});
  EXPECT_EQ(p.Run(&algorithms[0].algo), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(p.Run(&algorithms[2].algo), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(p.Run(nullptr), CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulHeuristicResult_t result;
  EXPECT_EQ(cublasLtMatmulAlgoCheck(p.handle, p.op, p.a.layout, p.b.layout,
                                    p.old.layout, p.d.layout,
                                    &algorithms[0].algo, &result),
            CUBLAS_STATUS_NOT_SUPPORTED);
  cublasLtMatmulAlgo_t foreign = algorithms[0].algo;
  ++foreign.data[0];
  EXPECT_EQ(
      cublasLtMatmulAlgoCheck(p.handle, p.op, p.a.layout, p.b.layout,
                              p.old.layout, p.d.layout, &foreign, &result),
      CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(CublasLtTest, RefusesLayoutsThatDoNotFit) {
  {
    Problem p(Case{});
    p.a.Set(CUBLASLT_MATRIX_LAYOUT_COLS, uint64_t{20});
    EXPECT_EQ(p.Run(), CUBLAS_STATUS_INVALID_VALUE) << "depth";
  }
  {
    Problem p(Case{});
    p.d.Set(CUBLASLT_MATRIX_LAYOUT_LD, int64_t{12});
    EXPECT_EQ(p.Run(), CUBLAS_STATUS_INVALID_VALUE) << "overlapping columns";
  }
  {
    Problem p(Case{.batch = 2});
    p.b.Set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t{1});
    EXPECT_EQ(p.Run(), CUBLAS_STATUS_INVALID_VALUE) << "batch";
  }
  {
    Problem p(Case{});
    p.a.Set(CUBLASLT_MATRIX_LAYOUT_ORDER, int32_t{CUBLASLT_ORDER_ROW});
    EXPECT_EQ(p.Run(), CUBLAS_STATUS_NOT_SUPPORTED) << "order";
    p.Algorithms(CUBLAS_STATUS_NOT_SUPPORTED);
  }
  {
    Problem p(Case{});
    p.b.Set(CUBLASLT_MATRIX_LAYOUT_TYPE, uint32_t{CUDA_R_16BF});
    EXPECT_EQ(p.Run(), CUBLAS_STATUS_NOT_SUPPORTED) << "two types";
  }
  {
    Problem p(Case{.in = CUDA_R_16BF, .out = CUDA_R_16F});
    EXPECT_EQ(p.Run(), CUBLAS_STATUS_NOT_SUPPORTED) << "output's type";
  }
  {
    Problem p(Case{});
    const int32_t wrong_size = 5;
    EXPECT_EQ(
        cublasLtMatrixLayoutSetAttribute(p.a.layout, CUBLASLT_MATRIX_LAYOUT_LD,
                                         &wrong_size, sizeof(wrong_size)),
        CUBLAS_STATUS_INVALID_VALUE);
  }
}

TEST_F(CublasLtTest, RefusesEpiloguesThatLackSomething) {
  {
    Problem p(Case{.epilogue = CUBLASLT_EPILOGUE_BIAS});
    p.Set<void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr);
    EXPECT_EQ(p.Run(), CUBLAS_STATUS_INVALID_VALUE) << "no bias";
  }
  for (const int64_t ld : {8, 15, 20}) {
    Problem p(Case{.epilogue = CUBLASLT_EPILOGUE_GELU_AUX});
    p.Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ld);
    EXPECT_EQ(p.Run(), CUBLAS_STATUS_INVALID_VALUE) << "aux's columns " << ld;
    p.Algorithms(CUBLAS_STATUS_INVALID_VALUE);
  }
  {
    Problem p(Case{.epilogue = CUBLASLT_EPILOGUE_DGELU});
    p.Set<void*>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, nullptr);
    EXPECT_EQ(p.Run(), CUBLAS_STATUS_INVALID_VALUE) << "no aux";
  }
  {
    Problem p(Case{.epilogue = CUBLASLT_EPILOGUE_RELU_AUX});
    EXPECT_EQ(p.Run(), CUBLAS_STATUS_NOT_SUPPORTED) << "not emulated";
  }
  {
    Problem p(Case{.in = CUDA_R_16BF,
                   .out = CUDA_R_16BF,
                   .epilogue = CUBLASLT_EPILOGUE_BIAS});
    p.Set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t{CUDA_R_32F});
    EXPECT_EQ(p.Run(), CUBLAS_STATUS_NOT_SUPPORTED) << "bias' type";
  }
}

TEST_F(CublasLtTest, HostMemoryIsFatal) {
  Problem p(Case{});
  std::vector<float> host(1024);
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        p.a.data = host.data();
        static_cast<void>(p.Run());
      },
      "cublasLtMatmul: the [0-9]+ bytes of A at .* are not all in one");
}

TEST_F(CublasLtTest, FailsWithTheDevice) {
  Problem p(Case{});
  FailKernels(cudaErrorIllegalAddress);
  const float one = 1.0f;
  const auto run = [&] {
    return cublasLtMatmul(p.handle, p.op, &one, p.a.data, p.a.layout, p.b.data,
                          p.b.layout, &one, p.old.data, p.old.layout, p.d.data,
                          p.d.layout, nullptr, nullptr, 0, nullptr);
  };
  static_cast<void>(run());
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(run(), CUBLAS_STATUS_EXECUTION_FAILED);
  cublasLtHandle_t handle = nullptr;
  EXPECT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_NOT_INITIALIZED);
}

TEST_F(CublasLtTest, IsLoadedFromTheProgramItself) {
  const auto library = SharedLibrary::Load(CublasLtNames());
  ASSERT_TRUE(library.ok()) << library.status();
  decltype(cublasLtGetVersion)* get_version = nullptr;
  ASSERT_TRUE(library->Find("cublasLtGetVersion", &get_version).ok());
  EXPECT_EQ(get_version(), size_t{CUBLAS_VERSION});
}

TEST_F(CublasLtTest, ThereIsNoCudnn) {
  EXPECT_EQ(SharedLibrary::Load(CudnnNames()).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace ringmaster::cuda_emulator
