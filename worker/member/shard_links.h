// The connections that the members of a job with parameter servers have for
// shards. Pure.
//
// A worker connects to every holder of shards, and a holder connects to each
// other one that it gives copies to; once for each lane (LaneOfShard). All
// members get the same placements, so both ends arrive at the same plan.
#ifndef RINGMASTER_WORKER_MEMBER_SHARD_LINKS_H_
#define RINGMASTER_WORKER_MEMBER_SHARD_LINKS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/parameter_server/message_loop.h"
#include "common/parameter_server/shard_host.h"
#include "common/transport/channel.h"
#include "common/transport/connect_peers.h"
#include "common/transport/shared_segment.h"
#include "worker/member/job_runner.h"

namespace ringmaster {

// The arenas that peers of this host may read in place; may be null.
struct ShardArenas {
  const SharedSegment* gradients = nullptr;
  const SharedSegment* parameters = nullptr;
};

// A member's connections for shards and, in the same order, their purposes.
struct ShardLinkPlan {
  std::vector<PeerConnection> connections;
  // The numbers of connections, which follow one another: as a worker, with
  // holders; as a holder, with workers, with those that give it copies, and
  // with those that it gives copies to.
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

// `lanes`: at least 1. nullopt for a job without shards.
//   INVALID_ARGUMENT  the placements name a rank that is no holder, or no shard
[[nodiscard]] absl::StatusOr<ShardLinkPlan> PlanShardLinks(
    const RankAssignment& assignment, int lanes, const ShardArenas& arenas);

// Returns the part of `assignment` that a holder needs.
[[nodiscard]] ShardHostAssignment HostAssignmentOf(
    const RankAssignment& assignment);
// Returns true if the assignment makes the member hold shards.
[[nodiscard]] bool HoldsShards(const RankAssignment& assignment);
// Returns the number of the generation's members, parameter servers included.
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

#endif  // RINGMASTER_WORKER_MEMBER_SHARD_LINKS_H_
