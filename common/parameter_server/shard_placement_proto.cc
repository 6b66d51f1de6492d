#include "common/parameter_server/shard_placement_proto.h"

namespace ringmaster {

v1::ShardPlacement ToProto(const ShardPlacement& placement) {
  v1::ShardPlacement proto;
  proto.set_primary_rank(placement.primary_rank);
  proto.set_backup_rank(placement.backup_rank);
  proto.set_source_rank(placement.source_rank);
  return proto;
}

ShardPlacement FromProto(const v1::ShardPlacement& placement) {
  return {.primary_rank = placement.primary_rank(),
          .backup_rank = placement.backup_rank(),
          .source_rank = placement.source_rank()};
}

}  // namespace ringmaster
