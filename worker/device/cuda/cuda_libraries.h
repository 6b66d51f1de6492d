// The names of the CUDA libraries that are loaded while the program runs, for
// SharedLibrary::Load, in the order to try (common/machine/cuda_libraries.h).
//
// In the emulated configuration the emulator stands for cuBLASLt, NCCL and
// CUPTI, and there is no cuDNN: Load returns NOT_FOUND.
// Thread-safety: thread-safe.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_CUDA_LIBRARIES_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_CUDA_LIBRARIES_H_

#include <string>
#include <vector>

namespace ringmaster {

std::vector<std::string> CublasLtNames();
std::vector<std::string> CudnnNames();
std::vector<std::string> NcclNames();
// NVIDIA's record of what runs on a GPU; only a profiler loads it.
std::vector<std::string> CuptiNames();

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_CUDA_LIBRARIES_H_
