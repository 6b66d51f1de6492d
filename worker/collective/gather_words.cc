#include "worker/collective/gather_words.h"

#include <algorithm>
#include <cstddef>

#include "common/status/status_macros.h"

namespace ringmaster {

absl::StatusOr<std::vector<int64_t>> GatherWords(std::span<const int64_t> own,
                                                 Communicator& communicator,
                                                 MonotonicTime deadline) {
  std::vector<int64_t> words(own.size() *
                             static_cast<size_t>(communicator.world_size()));
  std::ranges::copy(own, words.begin() + communicator.rank() *
                                             static_cast<int64_t>(own.size()));
  RETURN_IF_ERROR(communicator.Run(
      AllGather(BufferView::Of(std::span<int64_t>(words))), deadline));
  return words;
}

}  // namespace ringmaster
