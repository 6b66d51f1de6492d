// The findings of `ringctl doctor` about GPUs and the libraries that they need.
#ifndef RINGMASTER_SERVER_CTL_DOCTOR_GPU_H_
#define RINGMASTER_SERVER_CTL_DOCTOR_GPU_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/ctl/doctor/cuda_build.h"
#include "server/ctl/doctor/finding.h"

namespace ringmaster::ctl {

// A library that is loaded while a program runs.
struct LoadedLibrary {
  int version = 0;  // as in CudaVersions; 0: not loaded
  std::string error;
};

struct Gpu {
  std::string name;
  std::string uuid;  // "GPU-8c9f..."
  std::string bus;   // "0000:1B:00.0"
  int64_t memory_bytes = -1;
  int capability = 0;  // 90 is 9.0
};

struct GpuFacts {
  bool is_wanted = false;  // --device=cuda
  std::optional<CudaVersions> build;
  // The newest CUDA that the driver knows, as 13000.
  LoadedLibrary driver;
  // Loaded only if the build has CUDA, or it is wanted.
  std::optional<LoadedLibrary> nccl;
  std::optional<LoadedLibrary> cudnn;
  std::optional<LoadedLibrary> cublaslt;
  std::vector<Gpu> gpus;
  std::string gpus_error;  // why they cannot be listed, or ""
  // The number of pairs of GPUs that can reach each other's memory.
  int peer_pairs = 0;
};

// Loads the driver's library and those of CUDA; makes no context on a GPU.
[[nodiscard]] GpuFacts GatherGpuFacts(bool is_wanted);

// Pure.
[[nodiscard]] std::vector<Finding> GpuFindings(const GpuFacts& facts);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_DOCTOR_GPU_H_
