// Rendezvous decides which workers a job takes, when, and in which order of
// ranks.
//
// Pure functions of their arguments.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_RENDEZVOUS_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_RENDEZVOUS_H_

#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

// Returns true if a is before b when digits count as numbers: w2 < w10. A
// strict order: names that differ are never equal.
[[nodiscard]] bool NaturalLess(std::string_view a, std::string_view b);

// Returns when `job` (GATHERING) may begin with `idle_count` workers: at once
// (`now`) with `most`, as many as it may have now; with min, `settle` after the last join or the beginning of
// the gathering, whichever is later; otherwise InfiniteFuture.
[[nodiscard]] MonotonicTime GangTime(const Job& job, int most, int idle_count,
                                     MonotonicTime last_join,
                                     MonotonicTime now);

// Returns the order of ranks of a generation with `members`, who have the ranks
// of the previous one, counted from `first_rank`, and `joining`, packed by
// host, and by container within a host. If the joining fill the gaps between the
// members so that the ranks of each follow one another, every member keeps its
// rank. Otherwise the members keep their order: hosts are in the order of their
// lowest member's rank, then those of the joining; within a container members
// come first.
[[nodiscard]] std::vector<const Worker*> OrderRanks(
    const std::vector<const Worker*>& members,
    const std::vector<const Worker*>& joining, int first_rank = 0);

// Returns the worker's identity as members see it; the caller sets its ranks.
[[nodiscard]] MemberIdentity IdentityOf(const Worker& worker);

// Returns the member table for `workers` in this order of ranks; a local rank
// counts the earlier ranks of the same role in the same container.
[[nodiscard]] std::vector<MemberIdentity> AssignRanks(
    const std::vector<const Worker*>& workers);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_RENDEZVOUS_H_
