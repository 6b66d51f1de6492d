// Emulated NCCL does what the real one does where that is inconvenient: one process,
// two ranks on two devices.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "worker/device/cuda/emulator/emulator.h"

namespace ringmaster::cuda_emulator {
namespace {

ncclResult_t AwaitState(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    std::this_thread::yield();
  }
  return state;
}

class EmulatedNcclTest : public ::testing::Test {
 protected:
  static constexpr size_t kCount = 100;

  struct Rank {
    ncclComm_t comm = nullptr;
    cudaStream_t stream = nullptr;
    float* buffer = nullptr;
  };

  void SetUp() override {
    Settings settings;
    settings.devices = 2;
    Reset(settings);
    for (int rank = 0; rank < 2; ++rank) {
      ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
      ASSERT_EQ(cudaStreamCreate(&ranks_[rank].stream), cudaSuccess);
      void* buffer = nullptr;
      ASSERT_EQ(cudaMalloc(&buffer, kCount * sizeof(float)), cudaSuccess);
      ranks_[rank].buffer = static_cast<float*>(buffer);
      Fill(rank, static_cast<float>(rank + 1));
    }
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    for (int rank = 0; rank < 2; ++rank) Init(rank, id);
  }

  void Init(int rank, const ncclUniqueId& id) {
    cudaSetDevice(rank);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    EXPECT_EQ(ncclCommInitRankConfig(&ranks_[rank].comm, 2, id, rank, &config),
              ncclInProgress);
  }
  void AwaitInit() {
    for (const Rank& rank : ranks_)
      ASSERT_EQ(AwaitState(rank.comm), ncclSuccess);
  }
  void Fill(int rank, float value) {
    const std::vector<float> values(kCount, value);
    cudaMemcpy(ranks_[rank].buffer, values.data(), kCount * sizeof(float),
               cudaMemcpyHostToDevice);
  }
  float First(int rank) {
    float value = 0;
    cudaMemcpy(&value, ranks_[rank].buffer, sizeof(value),
               cudaMemcpyDeviceToHost);
    return value;
  }
  ncclResult_t AllReduce(int rank) {
    cudaSetDevice(rank);
    const Rank& own = ranks_[rank];
    return ncclAllReduce(own.buffer, own.buffer, kCount, ncclFloat32, ncclSum,
                         own.comm, own.stream);
  }
  // The first collective, which connects the two.
  void Connect() {
    AwaitInit();
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(AllReduce(rank), ncclInProgress);
    }
    for (const Rank& rank : ranks_) {
      EXPECT_EQ(AwaitState(rank.comm), ncclSuccess);
      EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
    }
  }

  Rank ranks_[2];
};

TEST_F(EmulatedNcclTest, TheFirstCollectiveWaitsForThePeers) {
  AwaitInit();
  EXPECT_EQ(AllReduce(0), ncclInProgress);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(ncclCommGetAsyncError(ranks_[0].comm, &state), ncclSuccess);
  EXPECT_EQ(state, ncclInProgress);
  EXPECT_EQ(AllReduce(0), ncclInvalidArgument) << "before it is through";
  EXPECT_EQ(std::string(ncclGetLastError(nullptr)),
            "the communicator is still in progress");

  EXPECT_EQ(AllReduce(1), ncclInProgress);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(AwaitState(ranks_[rank].comm), ncclSuccess);
    EXPECT_EQ(cudaStreamSynchronize(ranks_[rank].stream), cudaSuccess);
    EXPECT_EQ(First(rank), 3);
    EXPECT_EQ(ncclCommDestroy(ranks_[rank].comm), ncclSuccess);
  }
}

TEST_F(EmulatedNcclTest, AKernelHangsUntilItIsAbortedAndLeavesGarbage) {
  Connect();
  EXPECT_EQ(AllReduce(0), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(ranks_[1].comm), ncclSuccess);
  ncclResult_t state = ncclSuccess;
  while (state == ncclSuccess) ncclCommGetAsyncError(ranks_[0].comm, &state);
  EXPECT_EQ(state, ncclRemoteError);
  EXPECT_EQ(cudaStreamQuery(ranks_[0].stream), cudaErrorNotReady);
  EXPECT_EQ(AllReduce(0), ncclRemoteError) << "the first error stays";

  EXPECT_EQ(ncclCommAbort(ranks_[0].comm), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(ranks_[0].stream), cudaSuccess);
  EXPECT_TRUE(std::isnan(First(0)));
}

TEST_F(EmulatedNcclTest, CallsOfAGroupAreOneOperation) {
  AwaitInit();
  for (int rank = 0; rank < 2; ++rank) {
    cudaSetDevice(rank);
    const Rank& own = ranks_[rank];
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (int root = 0; root < 2; ++root) {
      EXPECT_EQ(ncclBroadcast(own.buffer + root, own.buffer + root, 1,
                              ncclFloat32, root, own.comm, own.stream),
                ncclSuccess);
    }
    EXPECT_EQ(ncclGroupEnd(), ncclInProgress);
  }
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(AwaitState(ranks_[rank].comm), ncclSuccess);
    EXPECT_EQ(cudaStreamSynchronize(ranks_[rank].stream), cudaSuccess);
    EXPECT_EQ(First(rank), 1);
    EXPECT_EQ(ncclCommDestroy(ranks_[rank].comm), ncclSuccess);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
}

TEST_F(EmulatedNcclTest, CollectivesThatDifferAreAnError) {
  Connect();
  EXPECT_EQ(AllReduce(0), ncclSuccess);
  cudaSetDevice(1);
  EXPECT_EQ(
      ncclAllReduce(ranks_[1].buffer, ranks_[1].buffer, kCount - 1, ncclFloat32,
                    ncclSum, ranks_[1].comm, ranks_[1].stream),
      ncclSuccess);
  for (const Rank& rank : ranks_) {
    ncclResult_t state = ncclSuccess;
    while (state == ncclSuccess) ncclCommGetAsyncError(rank.comm, &state);
    EXPECT_EQ(state, ncclInvalidUsage);
    EXPECT_EQ(ncclCommAbort(rank.comm), ncclSuccess);
  }
}

}  // namespace
}  // namespace ringmaster::cuda_emulator
