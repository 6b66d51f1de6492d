// BenchBuffer is the buffer that a rank reduces: like a job's gradients, it is
// in memory that ranks of its host read in place, if the host allows that.
//
// Immutable after construction, except for its elements.
#ifndef RINGMASTER_WORKER_BENCH_BENCH_BUFFER_H_
#define RINGMASTER_WORKER_BENCH_BENCH_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/tensor/allocator.h"
#include "common/transport/shared_allocator.h"
#include "common/transport/shared_segment.h"

namespace ringmaster {

class BenchBuffer {
 public:
  // Allocates `bytes` zeros; with `is_shared`, in memory to share if there is
  // any.
  //   RESOURCE_EXHAUSTED  there is not as much memory
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<BenchBuffer>> Allocate(
      int64_t bytes, bool is_shared);

  [[nodiscard]] std::byte* elements() const {
    return static_cast<std::byte*>(memory_.data());
  }
  // For MeshConfig::arena; null if it is not shared. Valid as long as this.
  [[nodiscard]] const SharedSegment* arena() const {
    return shared_.SegmentOf(memory_.data());
  }

 private:
  BenchBuffer() = default;

  HeapAllocator heap_;
  SharedAllocator shared_{"ringmaster bench"};
  Allocation memory_;  // gives its memory back to one of these
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_BENCH_BENCH_BUFFER_H_
