// ModelBuffers is a model's memory, planned once for its largest batch: one
// allocation, of which BufferCutter hands out the parts, one after another.
//
// Thread-safety: thread-compatible.
// Ownership: the allocator must outlive the buffers.
// Example:
//   RETURN_IF_ERROR(buffers_.Plan(allocator, [this](BufferCutter& cutter) {
//     hidden_ = cutter.Take<T>(max_batch_ * width_);
//   }));
#ifndef RINGMASTER_WORKER_NN_BUFFER_CUTTER_H_
#define RINGMASTER_WORKER_NN_BUFFER_CUTTER_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/status/status_macros.h"
#include "common/tensor/allocator.h"

namespace ringmaster {

class BufferCutter {
 public:
  // `memory` is null to only count.
  explicit BufferCutter(uint8_t* memory) : memory_(memory) {}

  // The next `elems` elements, aligned as an allocation is; null without
  // memory.
  template <typename U>
  U* Take(int64_t elems) {
    U* const begin =
        memory_ == nullptr ? nullptr : reinterpret_cast<U*>(memory_ + taken_);
    const int64_t bytes = elems * static_cast<int64_t>(sizeof(U));
    taken_ += (bytes + kAllocationAlignment - 1) / kAllocationAlignment *
              kAllocationAlignment;
    return begin;
  }
  // Bytes so far, with what aligns them.
  int64_t taken() const { return taken_; }

 private:
  uint8_t* const memory_;
  int64_t taken_ = 0;
};

class ModelBuffers {
 public:
  // Calls `cut` twice: first without memory, to learn how much is needed. It
  // must take the same parts each time.
  //   RESOURCE_EXHAUSTED  there is no memory
  [[nodiscard]] absl::Status Plan(Allocator& allocator,
                                  absl::FunctionRef<void(BufferCutter&)> cut) {
    BufferCutter counter(nullptr);
    cut(counter);
    ASSIGN_OR_RETURN(memory_, allocator.Allocate(counter.taken()));
    BufferCutter cutter(static_cast<uint8_t*>(memory_.data()));
    cut(cutter);
    return absl::OkStatus();
  }
  int64_t size_bytes() const { return memory_.size_bytes(); }

 private:
  Allocation memory_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_BUFFER_CUTTER_H_
