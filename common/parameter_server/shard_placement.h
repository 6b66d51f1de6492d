// ShardPlacement says who holds which shard of a job's parameters in a
// generation.
//
// Values only; the coordinator decides them, and tells every member the same.
#ifndef RINGMASTER_COMMON_PARAMETER_SERVER_SHARD_PLACEMENT_H_
#define RINGMASTER_COMMON_PARAMETER_SERVER_SHARD_PLACEMENT_H_

#include <cstdint>
#include <vector>

#include "common/plan/mesh.h"

namespace ringmaster {

struct ShardPlacement {
  int primary_rank = 0;  // updates the shard and answers workers
  int backup_rank = -1;  // holds a copy; -1: nobody does
  // The host that has the shard as of the resume step and gives it to the others
  // of these three; -1: nobody has it, and rank 0 gives it.
  int source_rank = -1;
  friend bool operator==(const ShardPlacement&,
                         const ShardPlacement&) = default;
};

struct ShardPlacements {
  // Those who hold shards, by rank: parameter servers, whose ranks follow those
  // of the workers, or the workers themselves. Empty: the job has no shards.
  std::vector<PeerAddress> hosts;
  std::vector<ShardPlacement> shards;  // by shard
};

// The lane of a shard: every host and every worker has as many, each with
// connections and a thread of its own, and the first has the first shards.
// 0 <= shard < shards; lanes >= 1.
[[nodiscard]] constexpr int LaneOfShard(int shard, int shards, int lanes) {
  return static_cast<int>(int64_t{shard} * lanes / shards);
}

// A shard as one of its holders has it: complete_step is the newest step whose
// update all of the shard has.
struct HeldShard {
  int shard = 0;
  int64_t complete_step = 0;
  friend bool operator==(const HeldShard&, const HeldShard&) = default;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PARAMETER_SERVER_SHARD_PLACEMENT_H_
