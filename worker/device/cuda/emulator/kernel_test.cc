// Tests how the emulator runs kernels.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "worker/device/cuda/emulator/emulator.h"
#include "worker/device/cuda/emulator/test_kernels.h"

namespace ringmaster::cuda_emulator {
namespace {

using ::testing::Each;

// Host code may read emulated device memory once the device is idle.
template <typename T>
T* DeviceArray(size_t count) {
  T* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, count * sizeof(T)), cudaSuccess);
  EXPECT_EQ(cudaMemset(data, 0, count * sizeof(T)), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  return data;
}

class KernelTest : public ::testing::Test {
 protected:
  void SetUp() override { Reset(Settings()); }
  void TearDown() override { Reset(Settings()); }
};

class SumBlocksTest : public KernelTest,
                      public ::testing::WithParamInterface<int> {};

TEST_P(SumBlocksTest, AddsUpThroughShufflesAndSharedMemory) {
  constexpr int kBlocks = 3;
  constexpr int kPerBlock = 1500;
  float* const values = DeviceArray<float>(kBlocks * kPerBlock);
  float* const sums = DeviceArray<float>(kBlocks);
  for (int i = 0; i < kBlocks * kPerBlock; ++i) {
    values[i] = static_cast<float>(i % 7 + i / kPerBlock);
  }
  ASSERT_EQ(SumBlocks(values, kPerBlock, sums, kBlocks, GetParam(), nullptr),
            cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (int b = 0; b < kBlocks; ++b) {
    float expected = 0.0f;
    for (int i = 0; i < kPerBlock; ++i) expected += values[b * kPerBlock + i];
    EXPECT_EQ(sums[b], expected) << "block " << b;
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, SumBlocksTest,
                         ::testing::Values(32, 96, 256, 1024));

TEST_F(KernelTest, DynamicSharedMemoryIsNanAtEachBlock) {
  float* const data = DeviceArray<float>(2 * 64);
  ASSERT_EQ(ReadFreshShared(data, 2, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (int i = 0; i < 2 * 64; ++i) EXPECT_TRUE(std::isnan(data[i])) << i;
}

TEST_F(KernelTest, ShufflesMoveValuesBetweenLanes) {
  int64_t* const out =
      DeviceArray<int64_t>(static_cast<size_t>(WarpTest::kCount) * 32);
  ASSERT_EQ(RunWarpTests(out, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const auto source = [&](WarpTest test, int lane) {
    return out[static_cast<int>(test) * 32 + lane] - (int64_t{1} << 40);
  };
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(source(WarpTest::kXor, lane), lane ^ 5);
    EXPECT_EQ(source(WarpTest::kUp, lane), lane < 3 ? lane : lane - 3);
    EXPECT_EQ(source(WarpTest::kDown, lane), lane > 28 ? lane : lane + 3);
    EXPECT_EQ(source(WarpTest::kBroadcast, lane), 7);
    EXPECT_EQ(source(WarpTest::kSections, lane),
              lane % 8 == 7 ? lane : lane + 1);
  }
}

TEST_F(KernelTest, EveryThreadOfEveryBlockRunsOnce) {
  int* const counts = DeviceArray<int>(6 * 64);
  unsigned* const total = DeviceArray<unsigned>(1);
  ASSERT_EQ(CountThreads(counts, total, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(*total, 6u * 64u);
  EXPECT_THAT(std::vector<int>(counts, counts + 6 * 64), Each(1));
}

TEST_F(KernelTest, VotesAreOfTheWarpAndTheBlock) {
  unsigned* const out = DeviceArray<unsigned>(4);
  ASSERT_EQ(RunVotes(out, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(out[0], 0xAAAAAAAAu);
  EXPECT_EQ(out[1], 1u);
  EXPECT_EQ(out[2], 0u);
  EXPECT_EQ(out[3], 10u);
}

TEST_F(KernelTest, ImpossibleLaunchesAreRefused) {
  EXPECT_EQ(LaunchAs(0, 32, 0, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(LaunchAs(1, 0, 0, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(LaunchAs(1, 1056, 0, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(LaunchAs(1, 32, 228 << 10, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(LaunchAs(1, 32, 227 << 10, nullptr), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

class KernelDeathTest : public KernelTest {
 protected:
  static void Run(Bug bug) {
    Reset(Settings());
    static_cast<void>(RunBuggy(bug, nullptr));
    static_cast<void>(cudaDeviceSynchronize());
  }
  void SetUp() override {
    KernelTest::SetUp();
    // Streams have threads.
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

TEST_F(KernelDeathTest, ABarrierThatAThreadDoesNotReachIsFatal) {
  EXPECT_DEATH(Run(Bug::kThreadEndsBeforeBarrier),
               "a barrier is not reached by all: 1 threads have ended "
               "\\(thread 5\\); 63 threads wait for their block at "
               ".*test_kernels.cu:[0-9]+ .*BuggyKernel.*launched at "
               ".*test_kernels.cu:[0-9]+ .*RunBuggy");
}

TEST_F(KernelDeathTest, BarriersInDifferentPlacesAreFatal) {
  EXPECT_DEATH(Run(Bug::kTwoBarriers),
               "threads of one block wait for each other in different places");
}

TEST_F(KernelDeathTest, AShuffleThatALaneDoesNotReachIsFatal) {
  EXPECT_DEATH(Run(Bug::kLaneLeavesShuffle),
               "not reached by all: .*62 threads wait for their warp at "
               ".*WarpSum.*RunBuggy");
}

TEST_F(KernelDeathTest, APartialMaskIsFatal) {
  EXPECT_DEATH(Run(Bug::kPartialMask), "mask is not that of all 32 threads");
}

#if defined(__SANITIZE_ADDRESS__)
TEST_F(KernelDeathTest, AddressSanitizerSeesTheEndOfSharedMemory) {
  EXPECT_DEATH(Run(Bug::kSharedOverrun), "heap-buffer-overflow");
}
#endif

}  // namespace
}  // namespace ringmaster::cuda_emulator
