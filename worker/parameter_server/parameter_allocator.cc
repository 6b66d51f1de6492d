#include "worker/parameter_server/parameter_allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/machine/memory_limits.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

// Allocations begin at pages: advice is given for whole ones.
constexpr int64_t kPageBytes = 4096;
// If the host does not say what it has: what is not used costs nothing.
constexpr int64_t kBytesIfUnknown = int64_t{16} << 30;

}  // namespace

absl::StatusOr<std::unique_ptr<ParameterAllocator>>
ParameterAllocator::Create() {
  const int64_t available = AvailableMemoryBytes();
  const int64_t bytes = available < 0 ? kBytesIfUnknown : available / 2;
  ASSIGN_OR_RETURN(
      SharedSegment segment,
      SharedSegment::Create("ringmaster parameters",
                            static_cast<size_t>(std::max(
                                bytes / kPageBytes * kPageBytes, kPageBytes))));
  return std::make_unique<ParameterAllocator>(std::move(segment));
}

absl::StatusOr<Allocation> ParameterAllocator::Allocate(int64_t size_bytes) {
  if (size_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot allocate ", size_bytes, " bytes"));
  }
  if (size_bytes == 0) return Allocation();
  void* data = nullptr;
  {
    MutexLock lock(mutex_);
    if (const auto it = free_.find(size_bytes); it != free_.end()) {
      data = it->second;
      free_.erase(it);
    }
  }
  if (data != nullptr) {
    std::memset(data, 0, static_cast<size_t>(size_bytes));
    return Allocation(this, data, size_bytes);
  }
  const auto whole = static_cast<int64_t>(segment_.bytes());
  {
    MutexLock lock(mutex_);
    if (size_bytes > whole - used_bytes_) {
      return absl::ResourceExhaustedError(
          absl::StrCat(size_bytes,
                       " bytes of shared memory for parameters are not to be "
                       "had: ",
                       used_bytes_, " of ", whole, " are in use"));
    }
    data = segment_.at() + used_bytes_;
    used_bytes_ = std::min(whole, used_bytes_ + (size_bytes + kPageBytes - 1) /
                                                    kPageBytes * kPageBytes);
  }
  // Both are advice. The pages are made now, not while the first step waits for
  // them. MADV_POPULATE_WRITE is of Linux 5.14.
  madvise(data, static_cast<size_t>(size_bytes), MADV_HUGEPAGE);
#ifdef MADV_POPULATE_WRITE
  madvise(data, static_cast<size_t>(size_bytes), MADV_POPULATE_WRITE);
#endif
  return Allocation(this, data, size_bytes);
}

void ParameterAllocator::Deallocate(void* data, int64_t size_bytes) {
  MutexLock lock(mutex_);
  free_.emplace(size_bytes, data);
}

}  // namespace ringmaster
