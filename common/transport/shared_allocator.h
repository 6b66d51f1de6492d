// SharedAllocator gives memory that this host's peers can be let read: a
// SharedSegment for each allocation.
//
// A peer that is given the segment reads what lies in it without a copy on the
// way (SharedChannel). In contrast to the heap's, its pages are small unless
// the kernel is told otherwise (/sys/kernel/mm/transparent_hugepage/
// shmem_enabled).
// Thread-safety: thread-safe.
// Example:
//   SharedAllocator allocator("ringmaster gradients");
//   ASSIGN_OR_RETURN(Allocation memory, allocator.Allocate(bytes));
//   config.arena = allocator.SegmentOf(memory.data());
#ifndef RINGMASTER_COMMON_TRANSPORT_SHARED_ALLOCATOR_H_
#define RINGMASTER_COMMON_TRANSPORT_SHARED_ALLOCATOR_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "common/sync/mutex.h"
#include "common/tensor/allocator.h"
#include "common/transport/shared_segment.h"

namespace ringmaster {

class SharedAllocator final : public Allocator {
 public:
  // /proc/PID/maps shows `segment_name`.
  explicit SharedAllocator(std::string segment_name)
      : segment_name_(std::move(segment_name)) {}

  std::string_view name() const override { return "shared memory"; }
  // Also UNIMPLEMENTED: SharedSegment::Create.
  [[nodiscard]] absl::StatusOr<Allocation> Allocate(
      int64_t size_bytes) override;

  // The memory that an allocation begins at `data`; null if none of this
  // allocator's does. Valid as long as the allocation.
  [[nodiscard]] const SharedSegment* SegmentOf(const void* data) const;

 private:
  void Deallocate(void* data, int64_t size_bytes) override;

  const std::string segment_name_;
  mutable Mutex mutex_;
  std::map<const void*, SharedSegment> segments_ GUARDED_BY(mutex_);
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_SHARED_ALLOCATOR_H_
