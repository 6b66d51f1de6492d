// Letting go: a job that trains gives up members without losing a step, because they
// are drained (cordon.h), because another job lacks workers (gifts.h), or because it is to
// have fewer (job_change.h).
//
// A member that is let go is treated as one that leaves (hand_over.h): the job pauses
// between two steps, others copy what only that member holds, then it is released. Its
// process is not told to leave, so it is idle then. A job lets go only whom it can do
// without; until then the member trains on. One whose commands run lets all members go,
// if it gives way, or none.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_LET_GO_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_LET_GO_H_

#include <vector>

#include "server/coordinator/core/placement/gifts.h"
#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

// Decides which members of `job` it lets go (Worker::is_let_go): those that are
// drained, from the highest rank down, as far as there are others in their places or
// more than its min; then those beyond its max; then those that it gives to other
// jobs; or, if it gives way (Job::gives_way), all of them. Called while it trains,
// whenever that may have changed, and before each further generation. A member that
// has a successor already goes even if there is no reason any more.
// `gifts` are those of the state as it is.
void LetMembersGo(State& state, Job& job, const std::vector<Gift>& gifts);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_LET_GO_H_
