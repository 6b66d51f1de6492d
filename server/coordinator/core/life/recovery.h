// Recovery: the state as a fold over the journal.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_RECOVERY_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_RECOVERY_H_

#include <vector>

#include "absl/status/statusor.h"
#include "server/coordinator/core/state/config.h"
#include "server/coordinator/core/state/record.h"
#include "server/coordinator/core/state/state.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Returns the state that results from `records`. The job whose newest
// generation was not ended is RUNNING, STOPPING if it was being cancelled,
// HALTING if there was a verdict in that generation; its members are DETACHED,
// except those that a verdict has excluded. The deadlines are BeginRecovered's.
// DATA_LOSS names the first record that contradicts those before it.
[[nodiscard]] absl::StatusOr<State> Fold(
    const std::vector<JournalRecord>& records, const Config& config);

// Starts the clocks of a folded state: the time to attach again, and the queue.
void BeginRecovered(Turn& turn);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_RECOVERY_H_
