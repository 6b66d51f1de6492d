// MakeShardRunner makes the JobRunner of a parameter server's process: it serves
// the workers of its job with the shards that its host holds.
#ifndef RINGMASTER_WORKER_PARAMETER_SERVER_SHARD_RUNNER_H_
#define RINGMASTER_WORKER_PARAMETER_SERVER_SHARD_RUNNER_H_

#include <memory>

#include "common/clock/clock.h"
#include "common/parameter_server/shard_host.h"
#include "common/transport/tcp.h"
#include "worker/member/job_runner.h"
#include "worker/parameter_server/rpc/parameter_endpoint.h"

namespace ringmaster {

// `listener` is the process's data plane. It and the clock must outlive the
// runner. `endpoint` (null: none) serves the host to small clients, and ends
// before it.
[[nodiscard]] std::unique_ptr<JobRunner> MakeShardRunner(
    Clock& clock, const Listener& listener, std::unique_ptr<ShardHost> host,
    std::unique_ptr<ParameterEndpoint> endpoint = nullptr);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PARAMETER_SERVER_SHARD_RUNNER_H_
