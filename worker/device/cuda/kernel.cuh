// Every file with device code includes this header: CUDA's device language
// under nvcc, and under a C++ compiler (--config=cuda_emulated) an emulation of
// it.
//
// Both have threadIdx, blockIdx, blockDim, gridDim; `__shared__ T name[N]` in a
// function, and DynamicShared; __syncthreads, __syncwarp, shuffles and votes of
// full warps; mathematics; __nv_bfloat16 and __half with their conversions
// (compute in float); vector types; atomicAdd on integers. Blocks are of whole
// warps. Anything else stands under #ifdef __CUDACC__, with a portable branch
// beside it that gives the same result. LaunchKernel starts kernels, because a
// C++ compiler cannot read <<<...>>>.
// Example:
//   __global__ void Fill(float* data, float value) {
//     data[threadIdx.x] = value;
//   }
//   return LaunchKernel(Fill, 1, 256, /*shared_bytes=*/0, stream, data, 1.0f);
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_KERNEL_CUH_
#define RINGMASTER_WORKER_DEVICE_CUDA_KERNEL_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#ifndef __CUDACC__

#include "worker/device/cuda/emulator/kernel_builtins.h"
#include "worker/device/cuda/emulator/launch.h"

#else

#include <tuple>
#include <type_traits>

namespace ringmaster {

// More dynamic shared memory than this a kernel has to ask for.
inline constexpr size_t kPlainSharedBytes = 48 << 10;

// Queues `kernel` on `stream`, which is the current device's. Returns the error
// of the launch; one of the kernel itself shows when the stream is next waited
// for. `shared_bytes` of DynamicShared may be as many as the device has for a
// block.
template <typename... Params, typename... Args>
cudaError_t LaunchKernel(void (*kernel)(Params...), dim3 grid, dim3 block,
                         size_t shared_bytes, cudaStream_t stream,
                         Args... args) {
  static_assert(sizeof...(Params) == sizeof...(Args),
                "a kernel is launched with as many arguments as it has");
  cudaError_t error = cudaSuccess;
  if (shared_bytes > kPlainSharedBytes) {
    error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shared_bytes));
  }
  if (error == cudaSuccess) {
    std::tuple<std::remove_cv_t<Params>...> values(
        static_cast<Params>(args)...);
    error = std::apply(
        [&](auto&... value) {
          void* pointers[] = {static_cast<void*>(&value)..., nullptr};
          return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid,
                                  block, pointers, shared_bytes, stream);
        },
        values);
  }
  // It is the caller's now, and not for the next call to find.
  if (error != cudaSuccess) static_cast<void>(cudaGetLastError());
  return error;
}

// The block's dynamic shared memory, of the launch's `shared_bytes`, aligned to
// 16 bytes. Undefined at first (NaN in the emulation).
template <typename T>
__device__ T* DynamicShared() {
  extern __shared__ __align__(16) unsigned char ringmaster_dynamic_shared[];
  return reinterpret_cast<T*>(ringmaster_dynamic_shared);
}

}  // namespace ringmaster

#endif  // __CUDACC__

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_KERNEL_CUH_
