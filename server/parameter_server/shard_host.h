// MakeShardHost makes the ShardHost of a process: what a parameter server is,
// and a worker that holds shards itself.
#ifndef RINGMASTER_SERVER_PARAMETER_SERVER_SHARD_HOST_H_
#define RINGMASTER_SERVER_PARAMETER_SERVER_SHARD_HOST_H_

#include <memory>

#include "common/clock/clock.h"
#include "common/parameter_server/shard_host.h"

namespace ringmaster {

// With `threads` that make updates, the one of Run included. `clock` must
// outlive it.
[[nodiscard]] std::unique_ptr<ShardHost> MakeShardHost(Clock& clock,
                                                       int threads = 1);

}  // namespace ringmaster

#endif  // RINGMASTER_SERVER_PARAMETER_SERVER_SHARD_HOST_H_
