// Kernels that the emulator's own tests run.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_TEST_KERNELS_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_TEST_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace ringmaster::cuda_emulator {

// sums[b] = sum of values[b * per_block, (b + 1) * per_block), by one block of
// `threads`, with shuffles and shared memory.
cudaError_t SumBlocks(const float* values, int per_block, float* sums,
                      int blocks, int threads, cudaStream_t stream);

// data[i] = the block's first dynamic shared number i before anybody wrote it;
// then writes it, for the next block to find.
cudaError_t ReadFreshShared(float* data, int blocks, cudaStream_t stream);

// One warp writes out[test * 32 + lane] for each test of WarpTest.
enum class WarpTest : int { kXor, kUp, kDown, kBroadcast, kSections, kCount };
cudaError_t RunWarpTests(int64_t* out, cudaStream_t stream);

// In a 3 x 2 grid of 2 x 16 x 2 blocks each thread adds 1 to its own place, and
// to *total.
cudaError_t CountThreads(int* counts, unsigned* total, cudaStream_t stream);

// out = {ballot of odd lanes, any of lane 3, all of lane 3, threads of 64 whose
// index is below 10}
cudaError_t RunVotes(unsigned* out, cudaStream_t stream);

// Broken kernels.
enum class Bug : int {
  kThreadEndsBeforeBarrier,
  kTwoBarriers,
  kLaneLeavesShuffle,
  kPartialMask,
  kSharedOverrun,
};
cudaError_t RunBuggy(Bug bug, cudaStream_t stream);

// Sets *data to `value`.
cudaError_t Store(int* data, int value, cudaStream_t stream);

// Launches a kernel that has no meaning, with these dimensions.
cudaError_t LaunchAs(int blocks, int threads, size_t shared_bytes,
                     cudaStream_t stream);

}  // namespace ringmaster::cuda_emulator

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_TEST_KERNELS_H_
