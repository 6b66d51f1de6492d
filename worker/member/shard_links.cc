#include "worker/member/shard_links.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "common/transport/loopback_channels.h"

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
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", assignment.rank, " got holders, but no shards"));
  }
  for (size_t shard = 0; shard < placements.shards.size(); ++shard) {
    const ShardPlacement& placement = placements.shards[shard];
    for (const int rank : {placement.primary_rank, placement.backup_rank,
                           placement.source_rank}) {
      const bool is_nobody = rank == -1 && placement.primary_rank != -1;
      if (is_nobody || FindHost(placements, rank) != nullptr) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", assignment.rank, " was told that rank ", rank,
          " holds shard ", shard, ", but not where it is reached"));
    }
  }
  return absl::OkStatus();
}

// The ranks that give `rank` copies, or get some from it.
struct CopyPeers {
  std::set<int> givers;
  std::set<int> takers;
};

CopyPeers CopyPeersOf(int rank, const ShardPlacements& placements, int lane,
                      int lanes) {
  CopyPeers peers;
  const auto note = [&](int giver, int taker) {
    if (giver < 0 || taker < 0 || giver == taker) return;
    if (giver == rank) peers.takers.insert(taker);
    if (taker == rank) peers.givers.insert(giver);
  };
  const auto shards = static_cast<int>(placements.shards.size());
  for (int shard = 0; shard < shards; ++shard) {
    if (LaneOfShard(shard, shards, lanes) != lane) continue;
    const ShardPlacement& placement =
        placements.shards[static_cast<size_t>(shard)];
    note(placement.primary_rank, placement.backup_rank);
    note(placement.source_rank, placement.primary_rank);
    note(placement.source_rank, placement.backup_rank);
  }
  return peers;
}

// Puts a lane's connections together.
class LanePlanner {
 public:
  LanePlanner(const RankAssignment& assignment, const ShardArenas& arenas,
              int lanes)
      : assignment_(assignment), arenas_(arenas), lanes_(lanes) {}

  void Add(int lane, ShardLinkPlan& plan) const {
    ShardLinkPlan::Lane& counts = plan.lanes.emplace_back();
    const ShardPlacements& placements = assignment_.shard_placements;
    const int rank = assignment_.rank;
    const auto add = [&](int peer, LinkRole role, const std::string& address,
                         const SharedSegment* arena) {
      plan.connections.push_back({.rank = peer,
                                  .role = role,
                                  .address = address,
                                  .first_stripe = lane,
                                  .arena = arena});
    };
    if (rank < assignment_.world_size) {
      for (const PeerAddress& host : placements.hosts) {
        if (host.rank == rank) continue;
        add(host.rank, LinkRole::kParameterServer, host.address,
            arenas_.gradients);
        ++counts.hosts;
      }
    }
    if (!HoldsShards(assignment_)) return;
    for (int worker = 0; worker < assignment_.world_size; ++worker) {
      if (worker == rank) continue;
      add(worker, LinkRole::kParameterServer, "", arenas_.parameters);
      ++counts.workers;
    }
    const CopyPeers copies = CopyPeersOf(rank, placements, lane, lanes_);
    for (const int giver : copies.givers) {
      add(giver, LinkRole::kReplica, "", nullptr);
      ++counts.givers;
    }
    for (const int taker : copies.takers) {
      add(taker, LinkRole::kReplica, FindHost(placements, taker)->address,
          nullptr);
      ++counts.takers;
    }
  }

 private:
  const RankAssignment& assignment_;
  const ShardArenas& arenas_;
  const int lanes_;
};

}  // namespace

absl::StatusOr<ShardLinkPlan> PlanShardLinks(const RankAssignment& assignment,
                                             int lanes,
                                             const ShardArenas& arenas) {
  if (assignment.shard_placements.hosts.empty()) return ShardLinkPlan();
  RETURN_IF_ERROR(CheckPlacements(assignment));
  ShardLinkPlan plan;
  plan.is_own_host =
      assignment.rank < assignment.world_size && HoldsShards(assignment);
  plan.arenas = arenas;
  const LanePlanner planner(assignment, arenas, lanes);
  for (int lane = 0; lane < lanes; ++lane) planner.Add(lane, plan);
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

namespace {

// A worker's channel with its own host, and the host's with it.
absl::StatusOr<std::pair<std::unique_ptr<Channel>, std::unique_ptr<Channel>>>
LoopbackOf(int rank, const ShardArenas& arenas) {
  return MakeLoopbackChannels(
      rank, {absl::StrCat("rank ", rank, " as a worker"), arenas.gradients},
      {absl::StrCat("rank ", rank, " as a holder"), arenas.parameters});
}

}  // namespace

absl::StatusOr<ShardLinks> AssembleShardLinks(
    int rank, const ShardLinkPlan& plan,
    std::vector<std::unique_ptr<Channel>> channels) {
  RM_CHECK(channels.size() == plan.connections.size(),
           "there is a channel for each connection");
  ShardLinks links;
  size_t next = 0;
  int lane = 0;
  const auto take = [&](int count, std::vector<MessagePeer>& peers) {
    for (int i = 0; i < count; ++i, ++next) {
      peers.push_back(
          {plan.connections[next].rank, std::move(channels[next]), lane});
    }
  };
  for (const ShardLinkPlan::Lane& counts : plan.lanes) {
    ShardHostLinks& host = links.host.emplace_back();
    take(counts.hosts, links.hosts);
    take(counts.workers, host.workers);
    take(counts.givers, host.primaries);
    take(counts.takers, host.backups);
    if (plan.is_own_host) {
      ASSIGN_OR_RETURN(auto pair, LoopbackOf(rank, plan.arenas));
      links.hosts.push_back({rank, std::move(pair.first), lane});
      host.workers.push_back({rank, std::move(pair.second), lane});
    }
    ++lane;
  }
  return links;
}

}  // namespace ringmaster
