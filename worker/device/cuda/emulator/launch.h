// LaunchKernel of the emulator. For kernel.cuh only.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_LAUNCH_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_LAUNCH_H_

#include <cuda_runtime_api.h>

#include <source_location>
#include <tuple>
#include <type_traits>

#include "worker/device/cuda/emulator/block.h"

namespace ringmaster {
namespace cuda_emulator {

// A stream, and the place of the launch that named it.
struct LaunchStream {
  LaunchStream(  // NOLINT(google-explicit-constructor)
      cudaStream_t stream,
      std::source_location where = std::source_location::current())
      : stream(stream), where(where) {}

  cudaStream_t stream;
  std::source_location where;
};

// Queues the kernel. Errors of the launch itself are the runtime's:
// cudaErrorInvalidConfiguration for dimensions, cudaErrorInvalidValue for too
// much shared memory, cudaErrorInvalidResourceHandle for another device's
// stream.
cudaError_t QueueGrid(Grid grid, cudaStream_t stream);

}  // namespace cuda_emulator

template <typename... Params, typename... Args>
cudaError_t LaunchKernel(void (*kernel)(Params...), dim3 grid, dim3 block,
                         size_t shared_bytes,
                         cuda_emulator::LaunchStream stream, Args... args) {
  static_assert(sizeof...(Params) == sizeof...(Args),
                "a kernel is launched with as many arguments as it has");
  return cuda_emulator::QueueGrid(
      {.grid = grid,
       .block = block,
       .shared_bytes = shared_bytes,
       .thread = [kernel, values = std::tuple<std::remove_cv_t<Params>...>(
                              static_cast<Params>(
                                  args)...)] { std::apply(kernel, values); },
       .launched_at = stream.where},
      stream.stream);
}

template <typename T>
T* DynamicShared() {
  return static_cast<T*>(cuda_emulator::DynamicSharedMemory());
}

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_LAUNCH_H_
