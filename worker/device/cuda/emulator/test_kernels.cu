#include "worker/device/cuda/emulator/test_kernels.h"
#include "worker/device/cuda/kernel.cuh"

namespace ringmaster::cuda_emulator {
namespace {

constexpr unsigned kAll = 0xFFFFFFFFu;
constexpr int kSharedFloats = 64;

__device__ __forceinline__ float WarpSum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(kAll, value, offset);
  }
  return value;
}

__global__ void __launch_bounds__(1024)
    SumBlocksKernel(const float* __restrict__ values, int per_block,
                    float* __restrict__ sums) {
  __shared__ float of_warps[32];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < per_block; i += blockDim.x) {
    sum += __ldg(&values[blockIdx.x * per_block + i]);
  }
  sum = WarpSum(sum);
  const int warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) of_warps[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    const int warps = blockDim.x / 32;
    sum = WarpSum(threadIdx.x < warps ? of_warps[threadIdx.x] : 0.0f);
    if (threadIdx.x == 0) __stcs(&sums[blockIdx.x], sum);
  }
}

__global__ void ReadFreshSharedKernel(float* data) {
  float* const shared = DynamicShared<float>();
  const int i = threadIdx.x;
  data[blockIdx.x * blockDim.x + i] = shared[i];
  shared[i] = 1.0f;
}

__global__ void WarpTestsKernel(int64_t* out) {
  const int lane = threadIdx.x;
  // Wider than 4 bytes, and no sum of two halves.
  const int64_t value = (int64_t{1} << 40) + lane;
  const auto at = [&](WarpTest test) -> int64_t& {
    return out[static_cast<int>(test) * 32 + lane];
  };
  at(WarpTest::kXor) = __shfl_xor_sync(kAll, value, 5);
  at(WarpTest::kUp) = __shfl_up_sync(kAll, value, 3);
  at(WarpTest::kDown) = __shfl_down_sync(kAll, value, 3);
  at(WarpTest::kBroadcast) = __shfl_sync(kAll, value, 7);
  __syncwarp();
  at(WarpTest::kSections) = __shfl_down_sync(kAll, value, 1, 8);
}

__global__ void CountThreadsKernel(int* counts, unsigned* total) {
  const int block = blockIdx.y * gridDim.x + blockIdx.x;
  const int thread =
      (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  counts[block * 64 + thread] += 1;
  atomicAdd(total, 1u);
}

__global__ void VotesKernel(unsigned* out) {
  const int thread = threadIdx.x;
  const unsigned odd = __ballot_sync(kAll, thread % 2);
  const int any = __any_sync(kAll, thread == 3);
  const int all = __all_sync(kAll, thread == 3);
  const int below = __syncthreads_count(thread < 10);
  if (thread == 0) {
    out[0] = odd;
    out[1] = any;
    out[2] = all;
    out[3] = below;
  }
}

__global__ void BuggyKernel(Bug bug) {
  const int thread = threadIdx.x;
  float* const shared = DynamicShared<float>();
  switch (bug) {
    case Bug::kThreadEndsBeforeBarrier:
      if (thread == 5) return;
      __syncthreads();
      break;
    case Bug::kTwoBarriers:
      if (thread < 32) {
        __syncthreads();
      } else {
        shared[0] = 1.0f;
        __syncthreads();
      }
      break;
    case Bug::kLaneLeavesShuffle:
      if (thread % 32 != 9) shared[thread] = WarpSum(1.0f);
      break;
    case Bug::kPartialMask:
      __syncwarp(1u);
      break;
    case Bug::kSharedOverrun:
      shared[kSharedFloats] = 1.0f;
      break;
  }
}

__global__ void StoreKernel(int* data, int value) { *data = value; }

__global__ void NothingKernel() {}

}  // namespace

cudaError_t SumBlocks(const float* values, int per_block, float* sums,
                      int blocks, int threads, cudaStream_t stream) {
  return LaunchKernel(SumBlocksKernel, blocks, threads, 0, stream, values,
                      per_block, sums);
}

cudaError_t ReadFreshShared(float* data, int blocks, cudaStream_t stream) {
  return LaunchKernel(ReadFreshSharedKernel, blocks, kSharedFloats,
                      kSharedFloats * sizeof(float), stream, data);
}

cudaError_t RunWarpTests(int64_t* out, cudaStream_t stream) {
  return LaunchKernel(WarpTestsKernel, 1, 32, 0, stream, out);
}

cudaError_t CountThreads(int* counts, unsigned* total, cudaStream_t stream) {
  return LaunchKernel(CountThreadsKernel, dim3(3, 2), dim3(2, 16, 2), 0, stream,
                      counts, total);
}

cudaError_t RunVotes(unsigned* out, cudaStream_t stream) {
  return LaunchKernel(VotesKernel, 1, 64, 0, stream, out);
}

cudaError_t RunBuggy(Bug bug, cudaStream_t stream) {
  return LaunchKernel(BuggyKernel, 1, kSharedFloats,
                      kSharedFloats * sizeof(float), stream, bug);
}

cudaError_t Store(int* data, int value, cudaStream_t stream) {
  return LaunchKernel(StoreKernel, 1, 1, 0, stream, data, value);
}

cudaError_t LaunchAs(int blocks, int threads, size_t shared_bytes,
                     cudaStream_t stream) {
  return LaunchKernel(NothingKernel, blocks, threads, shared_bytes, stream);
}

}  // namespace ringmaster::cuda_emulator
