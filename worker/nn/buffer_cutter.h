// BufferArena is the memory of a model's buffers, and BufferCutter hands out its
// parts, one after another, each of them aligned as a plan's tensors are. A
// model's buffers are cut twice: first without memory, to learn how much they
// need, then for good.
//
// Thread-safety: thread-compatible.
// Example:
//   RETURN_IF_ERROR(arena_.Plan([this](BufferCutter<T>& cutter) {
//     hidden_ = cutter.Take(max_batch_ * width_);
//   }));
#ifndef RINGMASTER_WORKER_NN_BUFFER_CUTTER_H_
#define RINGMASTER_WORKER_NN_BUFFER_CUTTER_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "common/plan/arena.h"
#include "common/plan/plan.h"
#include "common/status/status_macros.h"
#include "common/tensor/allocator.h"

namespace ringmaster {

template <typename T>
class BufferCutter {
 public:
  // `memory` is null to only count.
  explicit BufferCutter(T* memory) : memory_(memory) {}

  // The next `elems` elements; null without memory.
  T* Take(int64_t elems) {
    T* const begin = memory_ == nullptr ? nullptr : memory_ + taken_;
    taken_ +=
        (elems + kTensorAlignElems - 1) / kTensorAlignElems * kTensorAlignElems;
    return begin;
  }
  // Elements so far, with what aligns them.
  int64_t taken() const { return taken_; }

 private:
  T* const memory_;
  int64_t taken_ = 0;
};

template <typename T>
class BufferArena {
 public:
  // Calls `cut`, a function of BufferCutter<T>&, twice, see above: it must take
  // the same parts each time.
  //   RESOURCE_EXHAUSTED  there is no memory
  template <typename Cut>
  [[nodiscard]] absl::Status Plan(Cut cut) {
    BufferCutter<T> counter(nullptr);
    cut(counter);
    ASSIGN_OR_RETURN(Arena arena,
                     Arena::Create(ArenaRole::kBuffers, DTypeOf<T>(),
                                   counter.taken(), allocator_));
    arena_ = std::move(arena);
    BufferCutter<T> cutter(arena_->template Elems<T>().data());
    cut(cutter);
    return absl::OkStatus();
  }
  // Requires a successful Plan.
  int64_t size_bytes() const { return arena_->size_bytes(); }

 private:
  HeapAllocator allocator_;  // outlives the arena
  std::optional<Arena> arena_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_BUFFER_CUTTER_H_
