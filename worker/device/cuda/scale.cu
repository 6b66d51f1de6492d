#include <algorithm>

#include "worker/device/cuda/kernel.cuh"
#include "worker/device/cuda/scale.h"

namespace ringmaster {
namespace {

constexpr int kThreadsPerBlock = 256;
// Enough blocks to fill any GPU of today; each thread strides over the rest.
constexpr int64_t kMaxBlocks = 4096;

__global__ void ScaleKernel(float* data, int64_t count, float factor) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += stride) {
    data[i] *= factor;
  }
}

}  // namespace

cudaError_t ScaleOnDevice(float* data, int64_t count, float factor,
                          cudaStream_t stream) {
  if (count == 0) return cudaSuccess;  // a grid of 0 blocks is an error
  const int64_t blocks =
      std::min(kMaxBlocks, (count + kThreadsPerBlock - 1) / kThreadsPerBlock);
  return LaunchKernel(ScaleKernel, static_cast<unsigned>(blocks),
                      kThreadsPerBlock, /*shared_bytes=*/0, stream, data, count,
                      factor);
}

}  // namespace ringmaster
