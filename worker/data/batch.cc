#include "worker/data/batch.h"

#include <algorithm>

#include "common/status/check.h"

namespace ringmaster {

Batch::Batch(int64_t capacity, const SampleShape& shape)
    : shape_(shape),
      inputs_(Count(capacity * shape.tokens)),
      pixels_(Count(capacity * shape.pixels)),
      targets_(Count(capacity * shape.targets)),
      sample_ids_(Count(capacity)) {}

void Batch::Resize(int64_t size) {
  RM_CHECK(size >= 0 && size <= capacity(), "the batch has no room");
  size_ = size;
}

void Batch::CopyRange(const Batch& other, int64_t begin, int64_t count) {
  RM_CHECK(other.shape_ == shape_ && begin >= 0 && begin + count <= other.size_,
           "no such samples");
  Resize(count);
  const auto copy = [&](const auto& from, auto& to, int64_t elems) {
    std::copy_n(from.begin() + begin * elems, count * elems, to.begin());
  };
  copy(other.inputs_, inputs_, shape_.tokens);
  copy(other.pixels_, pixels_, shape_.pixels);
  copy(other.targets_, targets_, shape_.targets);
  copy(other.sample_ids_, sample_ids_, 1);
}

}  // namespace ringmaster
