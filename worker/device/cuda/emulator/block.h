// RunGrid runs a kernel on the calling thread: block after block, each thread
// of a block as a fiber.
//
// A thread runs until it waits for others (Barrier, WarpExchange) and then
// another one runs; so a kernel without barriers is a plain loop. Shared memory
// declared in a kernel is thread_local, the dynamic part is filled with 0xFF
// bytes (NaN) before each block. Threads that wait for an event that cannot
// come end the process with a message that says where they wait.
// Thread-safety: grids on several threads do not affect each other.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_BLOCK_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_BLOCK_H_

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>

// The built-in variables of device code.
inline constinit thread_local uint3 threadIdx = {};
inline constinit thread_local uint3 blockIdx = {};
inline constinit thread_local dim3 blockDim = {};
inline constinit thread_local dim3 gridDim = {};
inline constexpr int warpSize = 32;

namespace ringmaster::cuda_emulator {

inline constexpr int kWarpThreads = 32;

struct Grid {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  // The kernel with its arguments.
  std::function<void()> thread;
  // The place of the launch, for messages.
  std::source_location launched_at;
};

// Runs all threads of all blocks. Requires 1 to 1024 threads a block.
void RunGrid(const Grid& grid);

// For device code only, on a thread that RunGrid runs:

// Waits until all threads of the block are here. Returns the number of them
// that came with `predicate`.
int Barrier(bool predicate, std::source_location where);

// Waits until all 32 threads of the warp are here. Returns their values by
// lane, valid until this thread's next exchange.
const uint64_t* WarpExchange(uint64_t value, std::source_location where);

// The calling thread's place in its warp.
int Lane();

// The block's dynamic shared memory; null if the launch gave it none.
void* DynamicSharedMemory();

// Ends the process: device code did something at `where` that the emulator
// cannot do.
[[noreturn]] void RefuseInKernel(const char* what, std::source_location where);

}  // namespace ringmaster::cuda_emulator

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_BLOCK_H_
