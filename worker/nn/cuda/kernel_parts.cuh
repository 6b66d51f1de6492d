// The parts that kernels share: grids, loads and stores of 128 bits, and sums
// over a block in a fixed order.
//
// For .cu files alone.
#ifndef RINGMASTER_WORKER_NN_CUDA_KERNEL_PARTS_CUH_
#define RINGMASTER_WORKER_NN_CUDA_KERNEL_PARTS_CUH_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "worker/device/cuda/kernel.cuh"
#include "worker/nn/cuda/element.h"

namespace ringmaster::cuda {

constexpr int kWarpThreads = 32;
constexpr int kMaxWarps = 32;  // of a block
// For __launch_bounds__ of kernels whose blocks may be that large.
constexpr int kMaxThreads = kMaxWarps * kWarpThreads;
// Threads of a block of a kernel that treats elements one by one.
constexpr int kThreadsPerBlock = 256;

// Elements of T that one load of 128 bits brings.
template <typename T>
constexpr int kPackElems = static_cast<int>(16 / sizeof(T));

inline int64_t CeilDivide(int64_t count, int64_t by) {
  return (count + by - 1) / by;
}

// Threads of a block that has one for each of `count` things: whole warps, up
// to the most that a block may have.
inline unsigned BlockThreads(int64_t count) {
  return static_cast<unsigned>(
      std::clamp<int64_t>(CeilDivide(count, kWarpThreads) * kWarpThreads,
                          kWarpThreads, kMaxThreads));
}

// Blocks of a grid whose threads stride over the rest: enough to fill any GPU.
inline unsigned GridBlocks(int64_t blocks) {
  constexpr int64_t kMost = 1 << 16;
  return static_cast<unsigned>(std::min(blocks, kMost));
}

// Returns true if all of `pointers` can be loaded 128 bits at a time. Null can.
template <typename... Pointers>
bool ArePacked(const Pointers*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

// `kWidth` elements that are loaded or stored together, 128 bits at a time
// where they have that many. Their address must be a multiple of the alignment.
template <int kWidth, typename T>
struct alignas(std::min<size_t>(16, kWidth * sizeof(T))) Pack {
  T elems[kWidth];
};

template <int kWidth, typename T>
__device__ inline Pack<kWidth, T> LoadPack(const T* from) {
  return *reinterpret_cast<const Pack<kWidth, T>*>(from);
}

template <int kWidth, typename T>
__device__ inline void StorePack(const Pack<kWidth, T>& pack, T* to) {
  *reinterpret_cast<Pack<kWidth, T>*>(to) = pack;
}

template <int kWidth, typename T>
__device__ inline Pack<kWidth, float> FloatsOf(const Pack<kWidth, T>& pack) {
  Pack<kWidth, float> floats;
  for (int i = 0; i < kWidth; ++i) floats.elems[i] = ToFloat(pack.elems[i]);
  return floats;
}

// Loads elements as floats.
template <int kWidth, typename T>
__device__ inline Pack<kWidth, float> LoadFloats(const T* from) {
  return FloatsOf(LoadPack<kWidth>(from));
}

// Stores elements rounded to T: two at a time where they are of 16 bits, for
// which there is one instruction.
template <int kWidth, typename T>
__device__ inline void StoreFloats(const Pack<kWidth, float>& floats, T* to) {
  Pack<kWidth, T> rounded;
  if constexpr (kWidth % 2 == 0 && sizeof(T) == 2) {
    for (int i = 0; i < kWidth; i += 2)
      RoundTwo(floats.elems[i], floats.elems[i + 1], &rounded.elems[i]);
  } else {
    for (int i = 0; i < kWidth; ++i)
      rounded.elems[i] = RoundTo<T>(floats.elems[i]);
  }
  StorePack(rounded, to);
}

// The sum over the warp's threads, for each of them.
template <typename T>
__device__ inline T WarpSum(T value) {
  for (int lanes = kWarpThreads / 2; lanes > 0; lanes /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, lanes);
  return value;
}

// The sum over the block's threads, for each of them, in an order that depends
// on blockDim.x alone. Called by all threads of a block of one dimension;
// `warps` is shared, has kMaxWarps elements, and may be used again after a
// __syncthreads().
template <typename T>
__device__ inline T BlockSum(T value, T* warps) {
  value = WarpSum(value);
  if (blockDim.x == kWarpThreads) return value;
  if (threadIdx.x % kWarpThreads == 0)
    warps[threadIdx.x / kWarpThreads] = value;
  __syncthreads();
  T sum = warps[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarpThreads; ++warp)
    sum += warps[warp];
  return sum;
}

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_KERNEL_PARTS_CUH_
