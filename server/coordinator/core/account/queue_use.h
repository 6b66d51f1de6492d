// The use of queues: worker-seconds that their jobs have had, of which those of
// State::half_life ago count half.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_QUEUE_USE_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_QUEUE_USE_H_

#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

// Accounts for the time up to `now`, in which jobs had the workers that they have.
// Called before an event is taken in; it looks at all members, so it leaves times below
// a tenth of a second to a later call.
void AccountUse(State& state, MonotonicTime now);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_QUEUE_USE_H_
