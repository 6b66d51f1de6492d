// Taking over a generation that the journal did not know: from what its workers
// have reported (rebuild.h) to a job that runs.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_TAKE_OVER_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_TAKE_OVER_H_

#include <string>

#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Returns true if `worker` is the one that reported its rank, and is still as
// it reported.
[[nodiscard]] bool IsReporter(const Rebuilding& rebuilding,
                              const Worker& worker);

// The worker that reported `rank` of what is being rebuilt and is still there,
// or null.
[[nodiscard]] Worker* ReporterOf(State& state, int rank);

// The record of the generation that is being rebuilt; `job` is as the journal
// knows it. Ranks without a reporter are nobody's.
[[nodiscard]] GenerationFormedRecord RebuiltRecord(Turn& turn, const Job& job);

// Makes `job` the active one in the generation of `record`, which is durable.
// Workers that came too late for it are released; ranks that are not there are
// lost. Ends the rebuilding.
void TakeOver(Turn& turn, Job& job, const GenerationFormedRecord& record);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_TAKE_OVER_H_
