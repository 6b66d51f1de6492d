// The threads on which the lanes of a host run a generation together.
#ifndef RINGMASTER_WORKER_PARAMETER_SERVER_LANE_THREADS_H_
#define RINGMASTER_WORKER_PARAMETER_SERVER_LANE_THREADS_H_

#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/clock.h"
#include "common/parameter_server/shard_host.h"
#include "common/transport/cancel_token.h"
#include "worker/parameter_server/host_lane.h"
#include "worker/parameter_server/host_store.h"

namespace ringmaster {

// The end of all lanes: that of the lane that failed first, or all alike.
struct LanesEnd {
  absl::StatusOr<DoneKind> result;
  int blamed_rank = -1;
};

// Runs each of `lanes`, with its links, the first one on the calling thread.
// The first that fails interrupts the others. An exception of a lane is thrown
// again, once all have ended.
[[nodiscard]] LanesEnd RunLanes(
    std::span<const std::shared_ptr<HostLane>> lanes,
    std::vector<ShardHostLinks> links, const CancelToken& cancel);

// Has `use` look at the runs of all lanes while none of them goes on; on the
// thread of the last. With bsp all their shards then have one step in common.
// Errors of HostMailbox::Call, and what `use` returns.
[[nodiscard]] absl::Status WithAllHeld(
    std::span<const std::shared_ptr<HostLane>> lanes, MonotonicTime deadline,
    absl::FunctionRef<absl::Status(const HostRuns&, const ShardHostAssignment&)>
        use);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PARAMETER_SERVER_LANE_THREADS_H_
