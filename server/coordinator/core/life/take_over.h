// Taking over a generation that the journal did not know: from its workers'
// reports (rebuild.h) to a running job.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_TAKE_OVER_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_TAKE_OVER_H_

#include <string>

#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Returns true if `worker` is the one that reported its rank, unchanged since.
[[nodiscard]] bool IsReporter(const Rebuilding& rebuilding,
                              const Worker& worker);

// The worker that reported `rank` of what is being rebuilt and is still there,
// or null.
[[nodiscard]] Worker* ReporterOf(State& state, const Rebuilding& rebuilding,
                                 int rank);

// Returns the record of the generation that is being rebuilt; `job` is as the
// journal knows it. Ranks without a reporter have no worker.
[[nodiscard]] GenerationFormedRecord RebuiltRecord(Turn& turn,
                                                   const Rebuilding& rebuilding,
                                                   const Job& job);

// Makes `job` active in the generation of `record`, which is durable. Workers that
// reported too late are released; missing ranks are lost. Ends `rebuilding`.
void TakeOver(Turn& turn, Job& job, Rebuilding& rebuilding,
              const GenerationFormedRecord& record);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_TAKE_OVER_H_
