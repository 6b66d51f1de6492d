// The connections that the members of a job with parameter servers have for
// shards. Pure.
//
// A worker connects to everybody who holds shards; of those, whoever gives
// another one copies connects to it; once for each lane (LaneOfShard). Everybody
// is given the same placements, so both ends come to the same.
#ifndef RINGMASTER_WORKER_TRAIN_SHARD_LINKS_H_
#define RINGMASTER_WORKER_TRAIN_SHARD_LINKS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/parameter_server/message_loop.h"
#include "common/parameter_server/shard_host.h"
#include "common/transport/channel.h"
#include "common/transport/connect_peers.h"
#include "common/transport/shared_segment.h"
#include "worker/train/trainer.h"

namespace ringmaster {

// What peers of this host may read in place; may be null.
struct ShardArenas {
  const SharedSegment* gradients = nullptr;
  const SharedSegment* parameters = nullptr;
};

// What a member is connected with for shards, and by the same order, what for.
struct ShardLinkPlan {
  std::vector<PeerConnection> connections;
  // So many of these, one after the other: as a worker, with holders; as a
  // holder, with workers, with who gives it copies, and with whom it gives some.
  struct Lane {
    int hosts = 0;
    int workers = 0;
    int givers = 0;
    int takers = 0;
  };
  std::vector<Lane> lanes;
  bool is_own_host = false;  // it is a worker and a holder
  ShardArenas arenas = {};   // own
};

// `lanes`: at least 1. Nothing for a job whose parameters nobody holds.
//   INVALID_ARGUMENT  the placements name a rank that is no holder, or no shard
[[nodiscard]] absl::StatusOr<ShardLinkPlan> PlanShardLinks(
    const RankAssignment& assignment, int lanes, const ShardArenas& arenas);

// What a holder is told.
[[nodiscard]] ShardHostAssignment HostAssignmentOf(
    const RankAssignment& assignment);
// Whether the member is told to hold some of it.
[[nodiscard]] bool HoldsShards(const RankAssignment& assignment);
// How many take part in the generation, parameter servers included.
[[nodiscard]] int MembersOf(const RankAssignment& assignment);

struct ShardLinks {
  std::vector<MessagePeer> hosts;    // for a worker; of all lanes
  std::vector<ShardHostLinks> host;  // for a holder; by lane
};

// `channels` are those of the plan's connections, in order; a worker that is a
// holder gets channels with itself (loopback_channels.h).
//   RESOURCE_EXHAUSTED  the process has no descriptors left
[[nodiscard]] absl::StatusOr<ShardLinks> AssembleShardLinks(
    int rank, const ShardLinkPlan& plan,
    std::vector<std::unique_ptr<Channel>> channels);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_SHARD_LINKS_H_
