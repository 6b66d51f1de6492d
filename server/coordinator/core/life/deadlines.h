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

// Members that are to attach again have their time from when the first worker is
// there: until then it is as likely that nobody finds the coordinator, whose
// name may still lead to its old address, as that all are gone. They train
// meanwhile, and nobody waits for their place. A job that a user cancelled does
// not wait. To be called before the event at turn.now is handled.
void AwaitFirstWorker(Turn& turn);

// Moves every deadline that others have to meet by `delay`: the coordinator
// itself was late, so their messages may still wait to be read.
void ExtendDeadlines(State& state, absl::Duration delay);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_DEADLINES_H_
