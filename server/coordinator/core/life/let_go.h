// Letting go: a job that trains gives up members without losing a step, because they
// are drained (cordon.h), because another job lacks workers (gifts.h), or because it is to
// have fewer (job_change.h).
//
// A member that is let go is treated as one that leaves (hand_over.h): the job pauses
// between two steps, others copy what only that member holds, then it is released. Its
// process is not told to leave, so it is idle then. A job lets go only whom it can do
// without; until then the member trains on. One whose commands run lets all members go,
// if it gives way, or none.
//
// Once a drain is due (cordon.h), a job lets those members go even if it cannot do
// without them. One that can go on later from where it is gives way, so that it hoards no
// other workers: it is suspended (suspension.h), and queued. If its checkpoint cannot be
// written, it trains on, and tries again, as always. Any other waits with the members that
// are left. Steps that nobody else has, and that are in no checkpoint, are lost: somebody
// has said when those workers go. Only a benchmark keeps them to its end.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_LET_GO_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_LET_GO_H_

#include <functional>
#include <set>
#include <vector>

#include "server/coordinator/core/placement/gifts.h"
#include "server/coordinator/core/placement/idle_pool.h"
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

// Returns true if `worker` is drained, which is due, and its job can let it go.
[[nodiscard]] bool IsDueToGo(const State& state, const Worker& worker);

// Returns true if `job` lets members go that are due and that it cannot do without, and
// does not give way: it waits for nobody who prepares to take their places.
[[nodiscard]] bool HasToLetDueGo(const State& state, const Job& job);

// Returns true if `job` has enough members, and idle workers of `hosts` to take places,
// without those that go. Commands and benchmarks need all. Leaves out the idle workers of
// `taken`, and adds those that it would take.
[[nodiscard]] bool CanDoWithout(const State& state, const Job& job,
                                const std::function<bool(const Worker&)>& goes,
                                Hosts hosts, std::set<const Worker*>& taken);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_LET_GO_H_
