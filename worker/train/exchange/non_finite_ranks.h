// The ranks whose gradients are not finite, when a step's reduced gradient is
// not: if it is one rank, its processor, memory or samples are the reason; if
// it is every rank, the model is.
//
// Thread-safety: pure; FindNonFiniteRanks as its communicator.
#ifndef RINGMASTER_WORKER_TRAIN_EXCHANGE_NON_FINITE_RANKS_H_
#define RINGMASTER_WORKER_TRAIN_EXCHANGE_NON_FINITE_RANKS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock/monotonic_time.h"
#include "worker/collective/communicator.h"

namespace ringmaster {

// The ranks that put an infinity or a NaN into collective `first_sequence` or a
// later one, ascending; equal on all ranks. A small all-reduce, which all ranks
// must call: what one has seen the others need not have (LastNonFinite).
//   as Communicator::Wait
[[nodiscard]] absl::StatusOr<std::vector<int>> FindNonFiniteRanks(
    Communicator& communicator, int64_t first_sequence, MonotonicTime deadline);

// "it came from rank 3", for a message; empty in a world of one.
[[nodiscard]] std::string OriginOfNonFinite(std::span<const int> ranks,
                                            int world_size);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_EXCHANGE_NON_FINITE_RANKS_H_
