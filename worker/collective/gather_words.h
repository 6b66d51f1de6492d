// Gathers a few words of each rank, where ranks agree on what comes next.
#ifndef RINGMASTER_WORKER_COLLECTIVE_GATHER_WORDS_H_
#define RINGMASTER_WORKER_COLLECTIVE_GATHER_WORDS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock/monotonic_time.h"
#include "worker/collective/communicator.h"

namespace ringmaster {

// Returns the words of all, in the order of ranks; each rank gives as many. A collective;
// errors as Communicator::Run.
[[nodiscard]] absl::StatusOr<std::vector<int64_t>> GatherWords(
    std::span<const int64_t> own, Communicator& communicator,
    MonotonicTime deadline);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_GATHER_WORDS_H_
