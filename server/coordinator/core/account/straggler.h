// The member of a job that the others wait for. Pure.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_STRAGGLER_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_STRAGGLER_H_

#include <optional>

#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

// Less is what equal ranks wait for each other: they do not start a reduction at
// the same instant, and share cores and caches. A step that is a tenth longer
// than it need be is worth a look.
inline constexpr double kMinStragglerRatio = 0.1;

// A straggler has nobody to wait for. Who waits for others half as long as they
// wait for it takes turns with them, as ranks do that share too few cores.
inline constexpr double kMaxOwnWaitShare = 0.5;

struct Straggler {
  int rank = -1;
  // Mean share of the time that the other members waited for it.
  double wait_ratio = 0;
};

// By the last beats of the members: each names the one that it waits for most,
// and a member that is not named is not waited for. In a ring only the next rank
// waits for the straggler itself, and the others for their own neighbours, so it
// is who gets the most of the waiting; of equals the lowest rank. With parameter
// servers only the workers' waiting counts; they wait for a server, and who waits
// for a server that waits itself waits for whom it waits for. Nothing if
// that is kMinStragglerRatio at most, it waits itself, or the job does not train.
[[nodiscard]] std::optional<Straggler> FindStraggler(const Job& job);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_STRAGGLER_H_
