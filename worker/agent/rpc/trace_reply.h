// The answer to a request for what a rank has recorded.
#ifndef RINGMASTER_WORKER_AGENT_RPC_TRACE_REPLY_H_
#define RINGMASTER_WORKER_AGENT_RPC_TRACE_REPLY_H_

#include <cstdint>

#include "common/clock/monotonic_time.h"
#include "common/trace/trace.h"
#include "ringmaster/v1/coordinator_service.pb.h"
#include "worker/agent/core/agent_action.h"
#include "worker/agent/rpc/worker_identity.h"
#include "worker/member/job_runner.h"

namespace ringmaster {

// A flight record has the collectives of so many steps, and at most so many
// bytes, whatever is asked for.
inline constexpr int64_t kRecordedSteps = 64;
inline constexpr int64_t kMaxFlightBytes = 128 << 10;

// Returns the spans that `send` asks for, of `trace`. `progress` tells whom the
// rank waits for at `now`.
[[nodiscard]] v1::SessionRequest ToMessage(const agent::SendTrace& send,
                                           const WorkerIdentity& identity,
                                           const Trace& trace,
                                           const TrainProgress& progress,
                                           MonotonicTime now);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_AGENT_RPC_TRACE_REPLY_H_
