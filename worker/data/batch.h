// Batch is a rank's part of one step's global batch: windows of tokens and the
// token that follows each.
//
// Guarantees: Resize within the capacity given at construction never allocates.
// Thread-safety: thread-compatible.
#ifndef RINGMASTER_WORKER_DATA_BATCH_H_
#define RINGMASTER_WORKER_DATA_BATCH_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace ringmaster {

class Batch {
 public:
  // Room for `capacity` samples of `window` tokens; starts empty.
  Batch(int64_t capacity, int64_t window);

  // Sets the number of samples; contents are unspecified until filled. Requires
  // 0 <= size <= capacity().
  void Resize(int64_t size);

  int64_t size() const { return size_; }
  int64_t capacity() const { return static_cast<int64_t>(targets_.size()); }
  int64_t window() const { return window_; }

  // [size, window] token ids.
  absl::Span<const int32_t> inputs() const {
    return {inputs_.data(), Count(size_ * window_)};
  }
  absl::Span<int32_t> mutable_inputs() {
    return {inputs_.data(), Count(size_ * window_)};
  }
  // [size] token ids.
  absl::Span<const int32_t> targets() const {
    return {targets_.data(), Count(size_)};
  }
  absl::Span<int32_t> mutable_targets() {
    return {targets_.data(), Count(size_)};
  }
  // [size] which samples of the data set these are; goes into the ledger of the
  // commit record.
  absl::Span<const int64_t> sample_ids() const {
    return {sample_ids_.data(), Count(size_)};
  }
  absl::Span<int64_t> mutable_sample_ids() {
    return {sample_ids_.data(), Count(size_)};
  }

 private:
  static size_t Count(int64_t n) { return static_cast<size_t>(n); }

  int64_t window_;
  int64_t size_ = 0;
  std::vector<int32_t> inputs_;
  std::vector<int32_t> targets_;
  std::vector<int64_t> sample_ids_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_BATCH_H_
