#include "worker/train/shard_links.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "common/transport/socket_link.h"
#include "common/transport/stream_channel.h"

namespace ringmaster {
namespace {

const PeerAddress* FindHost(const ShardPlacements& placements, int rank) {
  const auto it =
      std::find_if(placements.hosts.begin(), placements.hosts.end(),
                   [&](const PeerAddress& host) { return host.rank == rank; });
  return it == placements.hosts.end() ? nullptr : &*it;
}

absl::Status CheckPlacements(const RankAssignment& assignment) {
  const ShardPlacements& placements = assignment.shard_placements;
  if (placements.shards.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", assignment.rank, " was told of holders, but of no shards"));
  }
  for (size_t shard = 0; shard < placements.shards.size(); ++shard) {
    const ShardPlacement& placement = placements.shards[shard];
    for (const int rank : {placement.primary_rank,
                           placement.backup_rank < 0 ? placement.primary_rank
                                                     : placement.backup_rank,
                           placement.source_rank < 0 ? placement.primary_rank
                                                     : placement.source_rank}) {
      if (FindHost(placements, rank) != nullptr) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", assignment.rank, " was told that rank ", rank,
          " holds shard ", shard, ", but not where it is reached"));
    }
  }
  return absl::OkStatus();
}

// Who gives `rank` copies, or gets some from it.
struct CopyPeers {
  std::set<int> givers;
  std::set<int> takers;
};

CopyPeers CopyPeersOf(int rank, const ShardPlacements& placements) {
  CopyPeers peers;
  const auto note = [&](int giver, int taker) {
    if (giver < 0 || taker < 0 || giver == taker) return;
    if (giver == rank) peers.takers.insert(taker);
    if (taker == rank) peers.givers.insert(giver);
  };
  for (const ShardPlacement& placement : placements.shards) {
    note(placement.primary_rank, placement.backup_rank);
    note(placement.source_rank, placement.primary_rank);
    note(placement.source_rank, placement.backup_rank);
  }
  return peers;
}

}  // namespace

absl::StatusOr<ShardLinkPlan> PlanShardLinks(const RankAssignment& assignment,
                                             const ShardArenas& arenas) {
  if (assignment.shard_placements.hosts.empty()) return ShardLinkPlan();
  RETURN_IF_ERROR(CheckPlacements(assignment));
  const ShardPlacements& placements = assignment.shard_placements;
  const int rank = assignment.rank;
  const bool is_worker = rank < assignment.world_size;
  const bool is_host = HoldsShards(assignment);
  ShardLinkPlan plan;
  plan.is_own_host = is_worker && is_host;
  const auto add = [&plan](int peer, LinkRole role, const std::string& address,
                           const SharedSegment* arena) {
    PeerConnection connection;
    connection.rank = peer;
    connection.role = role;
    connection.address = address;
    connection.arena = arena;
    plan.connections.push_back(connection);
  };
  if (is_worker) {
    for (const PeerAddress& host : placements.hosts) {
      if (host.rank == rank) continue;
      add(host.rank, LinkRole::kParameterServer, host.address,
          arenas.gradients);
      ++plan.hosts;
    }
  }
  if (!is_host) return plan;
  for (int worker = 0; worker < assignment.world_size; ++worker) {
    if (worker == rank) continue;
    add(worker, LinkRole::kParameterServer, "", arenas.parameters);
    ++plan.workers;
  }
  const CopyPeers copies = CopyPeersOf(rank, placements);
  for (const int giver : copies.givers) {
    add(giver, LinkRole::kReplica, "", nullptr);
    ++plan.givers;
  }
  for (const int taker : copies.takers) {
    add(taker, LinkRole::kReplica, FindHost(placements, taker)->address,
        nullptr);
    ++plan.takers;
  }
  return plan;
}

ShardHostAssignment HostAssignmentOf(const RankAssignment& assignment) {
  return {.job_id = assignment.job_id,
          .generation = assignment.generation,
          .rank = assignment.rank,
          .workers = assignment.world_size,
          .resume_step = assignment.resume_step,
          .placements = assignment.shard_placements};
}

bool HoldsShards(const RankAssignment& assignment) {
  return FindHost(assignment.shard_placements, assignment.rank) != nullptr;
}

int MembersOf(const RankAssignment& assignment) {
  int members = assignment.world_size;
  for (const PeerAddress& host : assignment.shard_placements.hosts)
    members += host.rank >= assignment.world_size ? 1 : 0;
  return members;
}

absl::StatusOr<ShardLinks> AssembleShardLinks(
    int rank, const ShardLinkPlan& plan,
    std::vector<std::unique_ptr<Channel>> channels) {
  RM_CHECK(channels.size() == plan.connections.size(),
           "there is a channel for each connection");
  ShardLinks links;
  size_t next = 0;
  const auto take = [&](int count, std::vector<MessagePeer>& peers) {
    for (int i = 0; i < count; ++i, ++next) {
      peers.push_back({plan.connections[next].rank, std::move(channels[next])});
    }
  };
  take(plan.hosts, links.hosts);
  take(plan.workers, links.host.workers);
  take(plan.givers, links.host.primaries);
  take(plan.takers, links.host.backups);
  if (!plan.is_own_host) return links;
  ASSIGN_OR_RETURN(auto pair,
                   LoopbackPair(absl::StrCat("rank ", rank, " as a holder"),
                                absl::StrCat("rank ", rank, " as a worker")));
  links.hosts.push_back(
      {rank, std::make_unique<StreamChannel>(rank, std::move(pair.first),
                                             Transport::kLoopback)});
  links.host.workers.push_back(
      {rank, std::make_unique<StreamChannel>(rank, std::move(pair.second),
                                             Transport::kLoopback)});
  return links;
}

}  // namespace ringmaster
