#include "worker/bench/bench_buffer.h"

#include <utility>

#include "common/status/status_macros.h"

namespace ringmaster {

absl::StatusOr<std::unique_ptr<BenchBuffer>> BenchBuffer::Allocate(
    int64_t bytes, bool is_shared) {
  std::unique_ptr<BenchBuffer> buffer(new BenchBuffer);
  if (is_shared) {
    absl::StatusOr<Allocation> memory = buffer->shared_.Allocate(bytes);
    if (memory.ok()) {
      buffer->memory_ = *std::move(memory);
      return buffer;
    }
  }
  ASSIGN_OR_RETURN(buffer->memory_, buffer->heap_.Allocate(bytes));
  return buffer;
}

}  // namespace ringmaster
