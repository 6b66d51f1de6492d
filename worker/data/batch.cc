#include "worker/data/batch.h"

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

}  // namespace ringmaster
