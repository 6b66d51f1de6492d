#include "common/transport/shared_allocator.h"

#include <sys/mman.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/status/status_macros.h"

namespace ringmaster {

absl::StatusOr<Allocation> SharedAllocator::Allocate(int64_t size_bytes) {
  if (size_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot allocate ", size_bytes, " bytes"));
  }
  if (size_bytes == 0) return Allocation();
  RETURN_IF_ERROR(FAIL_POINT("shared_allocator.allocate"));
  ASSIGN_OR_RETURN(
      SharedSegment segment,
      SharedSegment::Create(segment_name_, static_cast<size_t>(size_bytes)));
  void* const data = segment.at();
  // Both are advice. The pages are made now, as the heap's are: not while the
  // first step waits for them. MADV_POPULATE_WRITE is of Linux 5.14.
  madvise(data, segment.bytes(), MADV_HUGEPAGE);
#ifdef MADV_POPULATE_WRITE
  madvise(data, segment.bytes(), MADV_POPULATE_WRITE);
#endif
  MutexLock lock(mutex_);
  segments_.emplace(data, std::move(segment));
  return Allocation(this, data, size_bytes);
}

const SharedSegment* SharedAllocator::SegmentOf(const void* data) const {
  MutexLock lock(mutex_);
  const auto it = segments_.find(data);
  return it == segments_.end() ? nullptr : &it->second;
}

void SharedAllocator::Deallocate(void* data, int64_t /*size_bytes*/) {
  MutexLock lock(mutex_);
  segments_.erase(data);
}

}  // namespace ringmaster
