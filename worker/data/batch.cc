#include "worker/data/batch.h"

#include "common/status/check.h"

namespace ringmaster {

Batch::Batch(int64_t capacity, int64_t window)
    : window_(window),
      inputs_(Count(capacity * window)),
      targets_(Count(capacity)),
      sample_ids_(Count(capacity)) {}

void Batch::Resize(int64_t size) {
  RM_CHECK(size >= 0 && size <= capacity(), "the batch has no room");
  size_ = size;
}

}  // namespace ringmaster
