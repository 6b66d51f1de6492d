// The CUDA libraries that our programs load at run time: their places and their
// oldest usable versions.
#ifndef RINGMASTER_COMMON_MACHINE_CUDA_LIBRARIES_H_
#define RINGMASTER_COMMON_MACHINE_CUDA_LIBRARIES_H_

#include <string>
#include <vector>

namespace ringmaster {

// The oldest usable versions, as each library encodes them: 120000 is cuBLAS
// 12.0.0.
inline constexpr int kOldestCublasLt = 120000;
// cuDNN 9.6.0: before, sums in scratch had to be zeroed by the caller.
inline constexpr int kOldestCudnn = 90600;
// NCCL 2.19.3: its abort is the first that may be called while other
// communicators run.
inline constexpr int kOldestNccl = 21903;

// Names for SharedLibrary::Load, in the order to try: each soname bare, which is
// found on the system's library path (LD_LIBRARY_PATH), then in the CUDA
// toolkit's directory and in those of NVIDIA's Python packages, where a machine
// with PyTorch has it. Thread-safe.
[[nodiscard]] std::vector<std::string> CudaLibraryPlaces(
    const std::vector<std::string>& sonames);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_MACHINE_CUDA_LIBRARIES_H_
