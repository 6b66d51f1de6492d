#include "server/coordinator/core/placement/shard_placing.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

namespace ringmaster::coordinator {
namespace {

constexpr int kNone = -1;

bool Holds(const ShardCopies& shard, int host) {
  return std::binary_search(shard.holders.begin(), shard.holders.end(), host);
}

// By host: whether shards are placed on it.
std::vector<bool> StayingOf(const std::vector<ShardHolder>& hosts) {
  std::vector<bool> stays;
  for (const ShardHolder& host : hosts) stays.push_back(!host.is_leaving);
  if (std::find(stays.begin(), stays.end(), true) == stays.end()) {
    stays.assign(hosts.size(), true);
  }
  return stays;
}

size_t StayingCount(const std::vector<bool>& stays) {
  return static_cast<size_t>(std::count(stays.begin(), stays.end(), true));
}

// The number of primaries that each host has, and may have.
class Primaries {
 public:
  Primaries(size_t shards, const std::vector<bool>& stays)
      : stays_(stays),
        least_(static_cast<int>(shards / StayingCount(stays))),
        extra_(static_cast<int>(shards % StayingCount(stays))),
        counts_(stays.size(), 0) {}

  bool HasRoom(int host) const {
    const int count = counts_[static_cast<size_t>(host)];
    return stays_[static_cast<size_t>(host)] &&
           (count < least_ || (count == least_ && extra_ > 0));
  }
  void Take(int host) {
    if (counts_[static_cast<size_t>(host)]++ >= least_) --extra_;
  }
  int CountOf(int host) const { return counts_[static_cast<size_t>(host)]; }

 private:
  const std::vector<bool>& stays_;
  const int least_;
  int extra_;  // hosts that may have one more
  std::vector<int> counts_;
};

// Returns a host with room: one that holds the shard, else the one with the
// fewest primaries.
int ChoosePrimary(const ShardCopies& shard, int hosts,
                  const Primaries& primaries) {
  int best = kNone;
  const auto rating = [&](int host) {
    return std::tuple(!Holds(shard, host), primaries.CountOf(host));
  };
  for (int host = 0; host < hosts; ++host) {
    if (!primaries.HasRoom(host)) continue;
    if (best == kNone || rating(host) < rating(best)) best = host;
  }
  return best;
}

// Returns the shards, by index, in an order in which the lanes of each primary
// alternate: a primary that keeps only its first few keeps some of each lane,
// so all its threads have work.
std::vector<size_t> AcrossLanes(const std::vector<ShardCopies>& shards,
                                int lanes) {
  const auto count = static_cast<int>(shards.size());
  // With each shard, how many of its primary's shards in its lane come before
  // it.
  std::vector<std::pair<int, size_t>> order;
  std::map<std::pair<int, int>, int> before;
  for (size_t i = 0; i < shards.size(); ++i) {
    const int lane = LaneOfShard(static_cast<int>(i), count, lanes);
    order.emplace_back(before[{shards[i].primary, lane}]++, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<size_t> across;
  for (const auto& [place, shard] : order) across.push_back(shard);
  return across;
}

// By shard, the index of its primary's host.
std::vector<int> PlacePrimaries(const std::vector<ShardCopies>& shards,
                                int lanes, const std::vector<bool>& stays) {
  const int hosts = static_cast<int>(stays.size());
  Primaries primaries(shards.size(), stays);
  std::vector<int> placed(shards.size(), kNone);
  for (const size_t i : AcrossLanes(shards, lanes)) {
    const int primary = shards[i].primary;
    if (primary == kNone || !primaries.HasRoom(primary)) continue;
    placed[i] = primary;
    primaries.Take(primary);
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    if (placed[i] != kNone) continue;
    placed[i] = ChoosePrimary(shards[i], hosts, primaries);
    primaries.Take(placed[i]);
  }
  return placed;
}

// Requires another one that stays. `counts`: how many backups each host has so
// far.
int ChooseBackup(const std::vector<ShardHolder>& hosts,
                 const std::vector<bool>& stays, const ShardCopies& shard,
                 int primary, const std::vector<int>& counts) {
  const int host_count = static_cast<int>(hosts.size());
  const auto rating = [&](int host) {
    const auto at = static_cast<size_t>(host);
    const bool shares_machine =
        hosts[at].host_key == hosts[static_cast<size_t>(primary)].host_key;
    // Among equals, the next one: the backups of one host's shards spread out.
    return std::tuple(shares_machine, counts[at], !Holds(shard, host),
                      (host - primary + host_count) % host_count);
  };
  int best = kNone;
  for (int host = 0; host < host_count; ++host) {
    if (host == primary || !stays[static_cast<size_t>(host)]) continue;
    if (best == kNone || rating(host) < rating(best)) best = host;
  }
  return best;
}

int SourceOf(const ShardCopies& shard, int primary, int backup) {
  if (shard.holders.empty()) return kNone;
  if (Holds(shard, primary)) return primary;
  return Holds(shard, backup) ? backup : shard.holders.front();
}

}  // namespace

std::vector<ShardPlacement> PlaceShards(const std::vector<ShardHolder>& hosts,
                                        const std::vector<ShardCopies>& shards,
                                        int lanes, int replicas) {
  const std::vector<bool> stays = StayingOf(hosts);
  const std::vector<int> primaries = PlacePrimaries(shards, lanes, stays);
  std::vector<int> backup_counts(hosts.size(), 0);
  const auto rank_of = [&hosts](int host) {
    return host == kNone ? kNone : hosts[static_cast<size_t>(host)].rank;
  };
  std::vector<ShardPlacement> placements;
  placements.reserve(shards.size());
  for (size_t i = 0; i < shards.size(); ++i) {
    int backup = kNone;
    if (replicas > 0 && StayingCount(stays) > 1) {
      backup =
          ChooseBackup(hosts, stays, shards[i], primaries[i], backup_counts);
      ++backup_counts[static_cast<size_t>(backup)];
    }
    placements.push_back(
        {.primary_rank = rank_of(primaries[i]),
         .backup_rank = rank_of(backup),
         .source_rank = rank_of(SourceOf(shards[i], primaries[i], backup))});
  }
  return placements;
}

}  // namespace ringmaster::coordinator
