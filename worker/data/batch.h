// Batch is a rank's part of one step's global batch: the inputs that the model
// sees of each sample, and the targets that it must predict.
//
// Guarantees: Resize within the capacity given at construction never allocates.
// Thread-safety: thread-compatible.
#ifndef RINGMASTER_WORKER_DATA_BATCH_H_
#define RINGMASTER_WORKER_DATA_BATCH_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace ringmaster {

// The parts of one sample. A language model has tokens; one that predicts each
// next token has as many targets, one that predicts only the last has one
// target. A classifier of images has pixels and one target.
struct SampleShape {
  int64_t tokens = 0;  // token ids seen
  int64_t pixels = 0;  // bytes of an image: height * width * channels
  int64_t height = 0;  // of an image; 0 where the model does not say
  int64_t width = 0;
  int64_t targets = 1;  // ids to predict
  // The model masks some of the tokens itself, and predicts these: targets say
  // how many, and hold nothing.
  bool is_masked = false;

  friend bool operator==(const SampleShape&, const SampleShape&) = default;
};

class Batch {
 public:
  // Room for `capacity` samples; starts empty.
  Batch(int64_t capacity, const SampleShape& shape);

  // Sets the number of samples; contents are unspecified until filled. Requires
  // 0 <= size <= capacity().
  void Resize(int64_t size);

  // Becomes samples [begin, begin + count) of `other`. Requires that they
  // exist, the same shape, and count <= capacity().
  void CopyRange(const Batch& other, int64_t begin, int64_t count);

  int64_t size() const { return size_; }
  int64_t capacity() const { return static_cast<int64_t>(sample_ids_.size()); }
  const SampleShape& shape() const { return shape_; }

  // [size, tokens] token ids.
  absl::Span<const int32_t> inputs() const {
    return {inputs_.data(), Count(size_ * shape_.tokens)};
  }
  absl::Span<int32_t> mutable_inputs() {
    return {inputs_.data(), Count(size_ * shape_.tokens)};
  }
  // [size, pixels], each image row by row, channels innermost.
  absl::Span<const uint8_t> pixels() const {
    return {pixels_.data(), Count(size_ * shape_.pixels)};
  }
  absl::Span<uint8_t> mutable_pixels() {
    return {pixels_.data(), Count(size_ * shape_.pixels)};
  }
  // [size, targets] token ids, or classes.
  absl::Span<const int32_t> targets() const {
    return {targets_.data(), Count(size_ * shape_.targets)};
  }
  absl::Span<int32_t> mutable_targets() {
    return {targets_.data(), Count(size_ * shape_.targets)};
  }
  // [size] the numbers of these samples in the data set; they go into the
  // ledger of the commit record, and key dropout.
  absl::Span<const int64_t> sample_ids() const {
    return {sample_ids_.data(), Count(size_)};
  }
  absl::Span<int64_t> mutable_sample_ids() {
    return {sample_ids_.data(), Count(size_)};
  }

 private:
  static size_t Count(int64_t n) { return static_cast<size_t>(n); }

  SampleShape shape_;
  int64_t size_ = 0;
  std::vector<int32_t> inputs_;
  std::vector<uint8_t> pixels_;
  std::vector<int32_t> targets_;
  std::vector<int64_t> sample_ids_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_BATCH_H_
