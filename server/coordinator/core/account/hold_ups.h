// FindHoldUps names the ranks that others waited for in collectives, from what
// the ranks of a generation have recorded.
//
// Each rank tells whom it waited for. In a ring that is its neighbour, which may
// have waited itself; so these words are followed from rank to rank, to one that
// waited for nobody. It is behind by its own record, or it has left none, and the
// others tell whether anything of the collective had come from it. NCCL tells
// nobody's name: there the ranks that are behind hold the others up, or, if none
// is, those that are lost. Pure.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_HOLD_UPS_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_HOLD_UPS_H_

#include <set>
#include <vector>

#include "absl/time/time.h"
#include "ringmaster/v1/trace.pb.h"

namespace ringmaster::coordinator {

inline constexpr size_t kMaxHoldUps = 8;
inline constexpr int kMaxWaitingRanks = 16;

// A rank that lives holds others up if they wait for it as long as this: ranks
// wait for each other at every step, and are not asked at the same instant.
inline constexpr absl::Duration kLeastHoldUp = absl::Milliseconds(100);

// `record` has the ranks that answered, by rank, and the missing ones; of these,
// `lost` have left the generation for good. Returns those that are lost first,
// then by how long they were waited for; at most kMaxHoldUps.
[[nodiscard]] std::vector<v1::HoldUp> FindHoldUps(
    const v1::FlightRecord& record, const std::set<int>& lost);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_HOLD_UPS_H_
