// GatherTrace asks the members of a job for what they recorded.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_TRACE_GATHERING_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_TRACE_GATHERING_H_

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/clock/monotonic_time.h"
#include "ringmaster/v1/job_service.pb.h"
#include "server/coordinator/core/state/state.h"
#include "server/coordinator/rpc/gatherings.h"

namespace ringmaster::coordinator {

using TraceReply =
    absl::AnyInvocable<void(absl::StatusOr<v1::GetTraceResponse>)>;

// Asks every member of `job` that has a session, unless it has since begun
// another job, which clears its trace; `reply` is called once, perhaps at once.
//   RESOURCE_EXHAUSTED  even the newest step does not fit an answer, or too many
//                       questions are under way
void GatherTrace(const State& state, const Job& job, int64_t first_step,
                 int64_t last_step, MonotonicTime now, TraceReply reply,
                 Gatherings& gatherings);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_TRACE_GATHERING_H_
