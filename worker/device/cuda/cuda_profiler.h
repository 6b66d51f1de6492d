// CudaProfiler records what ran on the GPU: each kernel, copy and fill by its
// name, how often and how long, as CUPTI's activity records have it.
//
// It sees everything of this process, including kernels of libraries and of
// graphs. It does not see the host, gaps between kernels, other processes, or
// parts of a kernel; where kernels run beside each other their times add up to
// more than the time that passed. While it runs, launches take longer and CUPTI
// uses some device memory, so do not time anything then.
// Thread-safety: thread-compatible. One at a time in a process.
// Example:
//   ASSIGN_OR_RETURN(const auto profiler, CudaProfiler::Start());
//   ... work ...
//   ASSIGN_OR_RETURN(const GpuProfile profile, profiler->Stop());
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_CUDA_PROFILER_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_CUDA_PROFILER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace ringmaster {

struct GpuActivity {
  std::string name;  // a kernel's (kernel_name.h), "Memcpy HtoD", "Memset"
  int64_t count = 0;
  absl::Duration time;
};

struct GpuProfile {
  std::vector<GpuActivity> activities;  // the longest first
  // The number of activities without a record, or with one that lacks times.
  int64_t lost = 0;
};

class CudaProfiler {
 public:
  // Starts to record everything.
  //   NOT_FOUND, UNIMPLEMENTED  as CuptiLibrary::Load
  //   FAILED_PRECONDITION       another one runs, here or of somebody else
  //   INTERNAL                  CUPTI's words: there is no GPU, for example
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaProfiler>> Start();
  CudaProfiler(const CudaProfiler&) = delete;
  ~CudaProfiler();

  // Waits for the current device, then ends. Call it once. Errors as CudaStatus
  // and CuptiLibrary::ToStatus.
  [[nodiscard]] absl::StatusOr<GpuProfile> Stop();

 private:
  CudaProfiler() = default;
  [[nodiscard]] absl::Status Disable();

  bool is_enabled_ = false;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_CUDA_PROFILER_H_
