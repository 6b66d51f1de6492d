// Every deadline of the core, in one place.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_DEADLINES_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_DEADLINES_H_

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "server/coordinator/core/turn.h"

namespace ringmaster::coordinator {

// The earliest deadline of `state`; never later than the true one.
[[nodiscard]] MonotonicTime EarliestDeadline(const State& state);

// Acts on every deadline up to turn.now.
void ActOnDeadlines(Turn& turn);

// Moves every deadline that others have to meet by `delay`: the coordinator
// itself was late, so their messages may still wait to be read.
void ExtendDeadlines(State& state, absl::Duration delay);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_DEADLINES_H_
