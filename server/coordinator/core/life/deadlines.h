// Every deadline of the core, in one place.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_DEADLINES_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_DEADLINES_H_

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// The earliest deadline of `state`; never later than the true one.
[[nodiscard]] MonotonicTime EarliestDeadline(const State& state);

// Acts on every deadline up to turn.now.
void ActOnDeadlines(Turn& turn);

// The time for members to attach again starts when the first worker says hello:
// until then it is as likely that no worker finds the coordinator, whose name
// may still resolve to its old address, as that all are gone. They train
// meanwhile, and nobody waits for their place. A job that a user has cancelled
// does not wait. To be called before the event at turn.now is handled.
void AwaitFirstWorker(Turn& turn);

// Moves every deadline that others have to meet by `delay`: the coordinator
// itself was late, so their messages may still be unread.
void ExtendDeadlines(State& state, absl::Duration delay);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_DEADLINES_H_
