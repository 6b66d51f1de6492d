#include "worker/device/cuda/cuda_memory.h"

#include <cuda_runtime_api.h>

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "worker/device/cuda/cuda_status.h"

namespace ringmaster {
namespace {

absl::Status CheckSize(int64_t size_bytes) {
  if (size_bytes >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cannot allocate ", size_bytes, " bytes"));
}

// An error that is now reported is not to be found again by the next call.
void ForgetLastError() { static_cast<void>(cudaGetLastError()); }

}  // namespace

absl::StatusOr<Allocation> CudaAllocator::Allocate(int64_t size_bytes) {
  RETURN_IF_ERROR(CheckSize(size_bytes));
  if (size_bytes == 0) return Allocation();
  RETURN_IF_ERROR(CudaStatus(cudaSetDevice(ordinal_), "cudaSetDevice"));
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, static_cast<size_t>(size_bytes));
  if (error == cudaErrorMemoryAllocation) {
    ForgetLastError();
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    RETURN_IF_ERROR(CudaStatus(cudaMemGetInfo(&free_bytes, &total_bytes),
                               "cudaMemGetInfo"));
    return absl::ResourceExhaustedError(absl::StrCat(
        "cuda:", ordinal_, " has ", free_bytes, " of ", total_bytes,
        " bytes free; ", size_bytes, " are asked for"));
  }
  RETURN_IF_ERROR(CudaStatus(error, "cudaMalloc"));
  Allocation allocation(this, data, size_bytes);
  RETURN_IF_ERROR(CudaStatus(
      cudaMemset(data, 0, static_cast<size_t>(size_bytes)), "cudaMemset"));
  // cudaMemset of device memory returns before it is done, and the streams do
  // not wait for the null stream.
  RETURN_IF_ERROR(CudaStatus(cudaDeviceSynchronize(), "cudaDeviceSynchronize"));
  return allocation;
}

void CudaAllocator::Deallocate(void* data, int64_t /*size_bytes*/) {
  // Waits for what runs. After a lost context there is nothing left to free.
  static_cast<void>(cudaFree(data));
}

absl::StatusOr<Allocation> PinnedAllocator::Allocate(int64_t size_bytes) {
  RETURN_IF_ERROR(CheckSize(size_bytes));
  if (size_bytes == 0) return Allocation();
  void* data = nullptr;
  const cudaError_t error = cudaHostAlloc(
      &data, static_cast<size_t>(size_bytes), cudaHostAllocDefault);
  if (error == cudaErrorMemoryAllocation) {
    ForgetLastError();
    return absl::ResourceExhaustedError(
        absl::StrCat("this host cannot pin ", size_bytes,
                     " bytes of memory (ulimit -l, or the memory itself)"));
  }
  RETURN_IF_ERROR(CudaStatus(error, "cudaHostAlloc"));
  std::memset(data, 0, static_cast<size_t>(size_bytes));
  return Allocation(this, data, size_bytes);
}

void PinnedAllocator::Deallocate(void* data, int64_t /*size_bytes*/) {
  static_cast<void>(cudaFreeHost(data));
}

}  // namespace ringmaster
