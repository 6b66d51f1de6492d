// FindStraggler names the member of a job that the others wait for. Pure.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_STRAGGLER_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_STRAGGLER_H_

#include <optional>

#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

// Equal ranks wait for each other up to this much: they do not start a
// reduction at the same instant, and they share cores and caches. A step that
// is a tenth longer than necessary is worth a look.
inline constexpr double kMinStragglerRatio = 0.1;

// A straggler waits for nobody. A member that waits for others at least half as
// long as they wait for it is taking turns with them, like ranks that share too
// few cores.
inline constexpr double kMaxOwnWaitShare = 0.5;

struct Straggler {
  int rank = -1;
  // Mean share of the time that the other members waited for it.
  double wait_ratio = 0;
};

// Returns the straggler by the members' last beats. Each beat names the member
// that its sender waits for most. In a ring only the next rank waits for the
// straggler itself, and the others wait for their own neighbours; so the
// straggler is the member that accounts for the most waiting, or the lowest
// rank of several. With parameter servers only the workers' waiting counts: a
// worker blocked on a server that is itself blocked counts as waiting for
// whatever blocks the server. Returns nullopt if the ratio does not exceed
// kMinStragglerRatio, if the member waits itself, or if the job is not
// training.
[[nodiscard]] std::optional<Straggler> FindStraggler(const Job& job);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_STRAGGLER_H_
