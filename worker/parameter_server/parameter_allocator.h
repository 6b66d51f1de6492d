// ParameterAllocator gives memory that workers of this host read in place: all
// allocations lie in one SharedSegment, which is there before it is known how
// much of it will be needed.
//
// A channel tells its peer of a segment when it is made, and what a shard needs
// is learned over channels. So the segment may be as large as half of the
// memory that the host has to give; only the part that is allocated ever takes
// pages. Memory that is given back is used again for allocations of the same
// size; the pages are the host's again when the allocator ends.
// Thread-safety: thread-safe.
#ifndef RINGMASTER_WORKER_PARAMETER_SERVER_PARAMETER_ALLOCATOR_H_
#define RINGMASTER_WORKER_PARAMETER_SERVER_PARAMETER_ALLOCATOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "common/sync/mutex.h"
#include "common/tensor/allocator.h"
#include "common/transport/shared_segment.h"

namespace ringmaster {

class ParameterAllocator final : public Allocator {
 public:
  // The errors of SharedSegment::Create.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ParameterAllocator>>
  Create();
  // Takes a segment, of which nothing is used yet.
  explicit ParameterAllocator(SharedSegment segment)
      : segment_(std::move(segment)) {}

  std::string_view name() const override { return "shared memory"; }
  [[nodiscard]] absl::StatusOr<Allocation> Allocate(
      int64_t size_bytes) override;

  [[nodiscard]] const SharedSegment& segment() const { return segment_; }

 private:
  void Deallocate(void* data, int64_t size_bytes) override;

  const SharedSegment segment_;
  Mutex mutex_;
  int64_t used_bytes_ GUARDED_BY(mutex_) = 0;
  std::multimap<int64_t, void*> free_ GUARDED_BY(mutex_);  // by size
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PARAMETER_SERVER_PARAMETER_ALLOCATOR_H_
