// CudaDevice is a GPU that a worker computes on.
//
// Thread-safety: immutable; MakeCurrent concerns the calling thread.
// Ownership: owns its allocators, so it must outlive every Arena made with it.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_CUDA_DEVICE_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_CUDA_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tensor/allocator.h"
#include "worker/device/cuda/cuda_memory.h"

namespace ringmaster {

class CudaDevice final {
 public:
  // Opens device `ordinal` of those that CUDA shows this process
  // (CUDA_VISIBLE_DEVICES), and makes it current for the calling thread.
  //   FAILED_PRECONDITION  there is no driver, it is older than this build's
  //                        CUDA, there is no GPU, or it is too old for this
  //                        build's kernels; the message says what to do
  //   INVALID_ARGUMENT     there is no device of that number; says how many
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(
      int ordinal);

  // For people: "cuda:0 (NVIDIA H200, 139 GiB, GPU-8a56...)".
  const std::string& name() const { return name_; }
  // Memory that kernels of this device can use.
  Allocator& allocator() { return allocator_; }
  // Host memory for copies.
  Allocator& pinned_allocator() { return pinned_allocator_; }

  int ordinal() const { return ordinal_; }
  // As nvidia-smi shows it: "GPU-8a56...".
  const std::string& uuid() const { return uuid_; }
  int multiprocessors() const { return multiprocessors_; }
  // 90 for compute capability 9.0.
  int compute_capability() const { return compute_capability_; }
  int64_t total_bytes() const { return total_bytes_; }
  // The highest clock of the multiprocessors; 0: not known.
  double clock_hertz() const { return clock_hertz_; }

  // CUDA's current device is a property of each thread: a thread calls this
  // before anything else of CUDA.
  [[nodiscard]] absl::Status MakeCurrent() const;
  // Bytes that no process uses.
  [[nodiscard]] absl::StatusOr<int64_t> FreeBytes() const;

 private:
  explicit CudaDevice(int ordinal) : ordinal_(ordinal), allocator_(ordinal) {}
  [[nodiscard]] absl::Status ReadProperties();

  const int ordinal_;
  CudaAllocator allocator_;
  PinnedAllocator pinned_allocator_;
  std::string name_;
  std::string uuid_;
  int multiprocessors_ = 0;
  int compute_capability_ = 0;
  int64_t total_bytes_ = 0;
  double clock_hertz_ = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_CUDA_DEVICE_H_
