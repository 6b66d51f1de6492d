// MakeShardHost makes the ShardHost of a process: what a parameter server is,
// and a worker that holds shards itself. Small clients can read it, and push.
#ifndef RINGMASTER_WORKER_PARAMETER_SERVER_SHARD_HOST_H_
#define RINGMASTER_WORKER_PARAMETER_SERVER_SHARD_HOST_H_

#include <memory>

#include "common/clock/clock.h"
#include "common/parameter_server/shard_host.h"
#include "worker/parameter_server/parameter_store.h"

namespace ringmaster {

class StoringShardHost : public ShardHost, public ParameterStore {};

// `clock` must outlive it.
[[nodiscard]] std::unique_ptr<StoringShardHost> MakeShardHost(Clock& clock);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PARAMETER_SERVER_SHARD_HOST_H_
