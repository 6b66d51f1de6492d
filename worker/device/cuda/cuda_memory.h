// The memory of a GPU, and host memory that it copies from and to at full
// speed.
//
// Thread-safe.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_CUDA_MEMORY_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_CUDA_MEMORY_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/tensor/allocator.h"

namespace ringmaster {

// Device memory by plain cudaMalloc: arenas are few, large, and live as long as
// the job, so a pool would only hide how much is used. The host must not touch
// it.
class CudaAllocator final : public Allocator {
 public:
  // Allocates on device `ordinal`.
  explicit CudaAllocator(int ordinal) : ordinal_(ordinal) {}

  std::string_view name() const override { return "cuda"; }
  // Zeroes the memory before it returns. RESOURCE_EXHAUSTED says how much the
  // device has left.
  [[nodiscard]] absl::StatusOr<Allocation> Allocate(
      int64_t size_bytes) override;

 private:
  void Deallocate(void* data, int64_t size_bytes) override;

  const int ordinal_;
};

// Page-locked host memory: the device reads and writes it by itself, so that
// copies run beside the host's work.
class PinnedAllocator final : public Allocator {
 public:
  std::string_view name() const override { return "pinned"; }
  [[nodiscard]] absl::StatusOr<Allocation> Allocate(
      int64_t size_bytes) override;

 private:
  void Deallocate(void* data, int64_t size_bytes) override;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_CUDA_MEMORY_H_
