// ShardPlacement as ringmaster.v1.ShardPlacement and back. Pure.
#ifndef RINGMASTER_COMMON_PARAMETER_SERVER_SHARD_PLACEMENT_PROTO_H_
#define RINGMASTER_COMMON_PARAMETER_SERVER_SHARD_PLACEMENT_PROTO_H_

#include "common/parameter_server/shard_placement.h"
#include "ringmaster/v1/placement.pb.h"

namespace ringmaster {

[[nodiscard]] v1::ShardPlacement ToProto(const ShardPlacement& placement);
[[nodiscard]] ShardPlacement FromProto(const v1::ShardPlacement& placement);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PARAMETER_SERVER_SHARD_PLACEMENT_PROTO_H_
