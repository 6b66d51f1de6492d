// BufferCutter hands out the parts of a model's buffer memory, one after
// another, each of them aligned as a plan's tensors are. A model cuts twice:
// first without memory, to learn how much it needs, then for good.
//
// Thread-safety: thread-compatible.
// Ownership: none; the memory is the caller's, and must have the elements that
// are taken.
// Example:
//   BufferCutter<T> cutter(memory);  // null to only count
//   hidden_ = cutter.Take(max_batch * width);
//   return cutter.taken();
#ifndef RINGMASTER_WORKER_NN_BUFFER_CUTTER_H_
#define RINGMASTER_WORKER_NN_BUFFER_CUTTER_H_

#include <cstdint>

#include "common/plan/plan.h"

namespace ringmaster {

template <typename T>
class BufferCutter {
 public:
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

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_BUFFER_CUTTER_H_
