// The emulated GPUs, for tests: their number, and the failures on them.
//
// With --config=cuda_emulated the CUDA runtime is worker/device/cuda/emulator:
// device memory is the host's, a stream is a thread, kernels are compiled by
// the C++ compiler. It shows unwritten memory (0xFF bytes, that is NaN),
// barriers that not all threads reach, and missing synchronisation: streams run
// beside each other, and a graph runs in an order that only its dependencies
// determine. With --config=asan it also shows accesses out of bounds, with
// --config=tsan most races between streams and with the host. It cannot show
// host code that reads device memory in good order, races within a block,
// shared memory that is read before it is written (except for the dynamic
// part), or anything about speed.
//
// The environment sets it up for a process:
//   RINGMASTER_EMULATED_CUDA_DEVICES  how many GPUs (1); 0, or "no_driver"
//   RINGMASTER_EMULATED_CUDA_MEMORY   bytes that each has (4 GiB)
//   RINGMASTER_EMULATED_CUDA_FAILING  number of the kernel that loses its
//                                     device's context, from 1 (none does)
//   RINGMASTER_EMULATED_CUDA_HANGING  number of the kernel that never ends, until
//                                     the process does (none)
// Thread-safety: thread-safe, except for Reset.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_EMULATOR_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_EMULATOR_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace ringmaster::cuda_emulator {

struct Settings {
  bool has_driver = true;
  int devices = 1;
  int64_t memory_bytes = int64_t{4} << 30;  // of each device
  int64_t failing_kernel = 0;               // its number; 0: none
  int64_t hanging_kernel = 0;               // likewise
};

// Reads the environment. Ends the process if a value is not valid.
Settings SettingsFromEnvironment();

// Waits for all streams, frees everything allocated, forgets all errors, and
// begins again. Objects created before must not be used any more.
void Reset(const Settings& settings);

// The next kernel that runs, on any device, does nothing and loses the device's
// context: its calls return `error` from then on, as after
// cudaErrorIllegalAddress.
void FailKernels(cudaError_t error);

// The next cudaMalloc or cudaHostAlloc returns cudaErrorMemoryAllocation.
void FailNextAllocation();

}  // namespace ringmaster::cuda_emulator

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_EMULATOR_H_
