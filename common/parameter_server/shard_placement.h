// ShardPlacement names the holders of a shard of a job's parameters in a
// generation.
//
// Plain values; the coordinator decides them and sends all members the same.
#ifndef RINGMASTER_COMMON_PARAMETER_SERVER_SHARD_PLACEMENT_H_
#define RINGMASTER_COMMON_PARAMETER_SERVER_SHARD_PLACEMENT_H_

#include <cstdint>
#include <vector>

#include "common/plan/mesh.h"

namespace ringmaster {

struct ShardPlacement {
  int primary_rank = 0;  // updates the shard and answers workers
  int backup_rank = -1;  // holds a copy; -1: nobody does
  // The holder that has the shard as of the resume step and sends it to the
  // others; -1: none has it, and rank 0 sends it.
  int source_rank = -1;
  friend bool operator==(const ShardPlacement&,
                         const ShardPlacement&) = default;
};

struct ShardPlacements {
  // The members that hold shards, by rank: parameter servers, whose ranks
  // follow those of the workers, or the workers themselves. Empty: the job has
  // no shards.
  std::vector<PeerAddress> hosts;
  std::vector<ShardPlacement> shards;  // by shard
};

// Returns the lane of a shard. Every host and every worker has `lanes` of them,
// each with its own connections and thread; the first lane has the first
// shards.
// 0 <= shard < shards; lanes >= 1.
[[nodiscard]] constexpr int LaneOfShard(int shard, int shards, int lanes) {
  return static_cast<int>(int64_t{shard} * lanes / shards);
}

// One holder's copy of a shard: complete_step is the newest step whose update
// is in all of the shard.
struct HeldShard {
  int shard = 0;
  int64_t complete_step = 0;
  friend bool operator==(const HeldShard&, const HeldShard&) = default;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PARAMETER_SERVER_SHARD_PLACEMENT_H_
