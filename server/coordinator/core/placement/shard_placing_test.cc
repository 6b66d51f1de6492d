#include "server/coordinator/core/placement/shard_placing.h"

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::Each;

std::vector<ShardHolder> Hosts(const std::vector<std::string>& machines,
                               int first_rank = 0) {
  std::vector<ShardHolder> hosts;
  for (const std::string& machine : machines) {
    hosts.push_back({first_rank + static_cast<int>(hosts.size()), machine});
  }
  return hosts;
}

std::string ToText(const std::vector<ShardPlacement>& placements) {
  std::string text;
  for (const ShardPlacement& placement : placements) {
    text += (text.empty() ? "" : " ") + std::to_string(placement.primary_rank) +
            "/" + std::to_string(placement.backup_rank) + "<" +
            std::to_string(placement.source_rank);
  }
  return text;
}

TEST(ShardPlacingTest, NewShardsGoRoundAndNobodyHasThem) {
  const std::vector<std::string> machines = {"a", "b", "c"};
  EXPECT_EQ(ToText(PlaceShards(Hosts(machines, 4), std::vector<ShardCopies>(3),
                               1, 0)),
            "4/-1<-1 5/-1<-1 6/-1<-1");
  EXPECT_EQ(ToText(PlaceShards(Hosts(machines, 4), std::vector<ShardCopies>(3),
                               1, 1)),
            "4/5<-1 5/6<-1 6/4<-1");
}

TEST(ShardPlacingTest, OneHostHasNoBackup) {
  const std::vector<std::string> machines = {"a"};
  EXPECT_EQ(
      ToText(PlaceShards(Hosts(machines), std::vector<ShardCopies>(2), 1, 1)),
      "0/-1<-1 0/-1<-1");
}

TEST(ShardPlacingTest, TheBackupOfALostPrimaryTakesItsPlace) {
  // The shards were at 0/1, 1/2, 2/0; host 2 is lost.
  const std::vector<std::string> machines = {"a", "b"};
  EXPECT_EQ(ToText(PlaceShards(Hosts(machines),
                               {{{0, 1}, 0}, {{1}, 1}, {{0}, -1}}, 1, 1)),
            "0/1<0 1/0<1 0/1<0");
}

TEST(ShardPlacingTest, AHostThatComesGetsItsShareFromTheOthers) {
  const std::vector<std::string> machines = {"a", "b"};
  EXPECT_EQ(ToText(PlaceShards(Hosts(machines), {{{0}, 0}, {{0}, 0}}, 1, 0)),
            "0/-1<0 1/-1<0");
}

TEST(ShardPlacingTest, WhoGivesAShareAwayKeepsSomeOfEachLane) {
  const auto lanes_of = [](const std::vector<ShardPlacement>& placements,
                           int rank, int lanes) {
    const auto shards = static_cast<int>(placements.size());
    std::vector<int> counts(static_cast<size_t>(lanes), 0);
    for (int shard = 0; shard < shards; ++shard) {
      if (placements[shard].primary_rank == rank)
        ++counts[LaneOfShard(shard, shards, lanes)];
    }
    return counts;
  };
  // One of two servers was lost, and its shards went to the other; now another
  // takes its place.
  const std::vector<std::string> machines = {"a", "b"};
  for (const int lanes : {2, 4}) {
    const auto placements =
        PlaceShards(Hosts(machines),
                    std::vector<ShardCopies>(2 * lanes, {{0}, 0}), lanes, 0);
    for (const int rank : {0, 1}) {
      EXPECT_THAT(lanes_of(placements, rank, lanes), Each(1))
          << ToText(placements);
    }
  }
  // One of three servers is back: each of the others has three shards, two of
  // them of one lane.
  const std::vector<std::string> three = {"a", "b", "c"};
  std::vector<ShardCopies> shards;
  for (const int holder : {1, 1, 2, 2, 1, 2})
    shards.push_back({{holder}, holder});
  const auto placements = PlaceShards(Hosts(three), shards, 2, 0);
  for (const int rank : {0, 1, 2})
    EXPECT_THAT(lanes_of(placements, rank, 2), Each(1)) << ToText(placements);
}

TEST(ShardPlacingTest, WhoLeavesGivesWhatItHoldsAndGetsNothing) {
  const std::vector<std::string> machines = {"a", "b", "c"};
  std::vector<ShardHolder> hosts = Hosts(machines);
  hosts[1].is_leaving = true;
  EXPECT_EQ(ToText(PlaceShards(hosts, {{{0}, 0}, {{1}, 1}, {{2}, 2}}, 1, 0)),
            "0/-1<0 0/-1<1 2/-1<2");
  EXPECT_EQ(
      ToText(PlaceShards(hosts, {{{0, 1}, 0}, {{1, 2}, 1}, {{0, 2}, 2}}, 1, 1)),
      "0/2<0 2/0<2 2/0<2");
  // There is no backup where only one stays.
  hosts[2].is_leaving = true;
  EXPECT_EQ(ToText(PlaceShards(hosts, {{{1}, 1}, {{2}, 2}}, 1, 1)),
            "0/-1<1 0/-1<2");
  // Somebody must have them.
  hosts[0].is_leaving = true;
  EXPECT_EQ(ToText(PlaceShards(hosts, {{{0}, 0}, {{1}, 1}, {{2}, 2}}, 1, 0)),
            "0/-1<0 1/-1<1 2/-1<2");
}

TEST(ShardPlacingTest, ABackupIsOnAnotherMachineIfThereIsOne) {
  const std::vector<std::string> machines = {"a", "a", "b"};
  for (const ShardPlacement& placement :
       PlaceShards(Hosts(machines), std::vector<ShardCopies>(3), 1, 1)) {
    EXPECT_NE(placement.primary_rank == 2, placement.backup_rank == 2)
        << placement.primary_rank << " " << placement.backup_rank;
  }
}

TEST(ShardPlacingTest, WhatHasNotChangedStaysWhereItIs) {
  for (int hosts = 1; hosts <= 7; ++hosts) {
    for (int count = hosts; count <= 14; ++count) {
      std::vector<std::string> machines;
      for (int i = 0; i < hosts; ++i) machines.push_back(std::to_string(i % 3));
      const auto first =
          PlaceShards(Hosts(machines), std::vector<ShardCopies>(count), 1, 1);
      std::vector<ShardCopies> copies;
      for (const ShardPlacement& placement : first) {
        ShardCopies copy{{placement.primary_rank}, placement.primary_rank};
        if (placement.backup_rank >= 0) {
          copy.holders.push_back(placement.backup_rank);
        }
        std::sort(copy.holders.begin(), copy.holders.end());
        copies.push_back(copy);
      }
      const auto again = PlaceShards(Hosts(machines), copies, 1, 1);
      for (size_t i = 0; i < first.size(); ++i) {
        EXPECT_EQ(again[i].primary_rank, first[i].primary_rank);
        EXPECT_EQ(again[i].backup_rank, first[i].backup_rank);
        EXPECT_EQ(again[i].source_rank, first[i].primary_rank);
      }
    }
  }
}

// Checks what must hold for any placement.
void Check(const std::vector<ShardHolder>& hosts,
           const std::vector<ShardCopies>& shards, int replicas,
           const std::vector<ShardPlacement>& placements) {
  ASSERT_EQ(placements.size(), shards.size());
  const auto staying =
      std::count_if(hosts.begin(), hosts.end(),
                    [](const ShardHolder& host) { return !host.is_leaving; });
  const auto is_free = [&](int rank) {
    return staying > 0 && hosts[rank - hosts[0].rank].is_leaving;
  };
  std::vector<int> counts(hosts.size(), 0);
  std::vector<int> stay(hosts.size(), 0);
  for (size_t i = 0; i < shards.size(); ++i) {
    const ShardPlacement& placement = placements[i];
    const ShardCopies& shard = shards[i];
    const int primary = placement.primary_rank - hosts[0].rank;
    ASSERT_GE(primary, 0);
    ASSERT_LT(primary, static_cast<int>(hosts.size()));
    ++counts[primary];
    EXPECT_FALSE(is_free(placement.primary_rank));
    if (shard.primary == primary) ++stay[primary];
    if (replicas == 0 ||
        (staying > 0 ? staying : static_cast<int>(hosts.size())) < 2) {
      EXPECT_EQ(placement.backup_rank, -1);
    } else {
      ASSERT_GE(placement.backup_rank, hosts[0].rank);
      ASSERT_LE(placement.backup_rank, hosts.back().rank);
      EXPECT_NE(placement.backup_rank, placement.primary_rank);
      EXPECT_FALSE(is_free(placement.backup_rank));
    }
    if (shard.holders.empty()) {
      EXPECT_EQ(placement.source_rank, -1);
    } else {
      EXPECT_TRUE(std::binary_search(shard.holders.begin(), shard.holders.end(),
                                     placement.source_rank - hosts[0].rank));
    }
  }
  int least = std::numeric_limits<int>::max();
  int most = 0;
  for (size_t host = 0; host < hosts.size(); ++host) {
    if (is_free(hosts[host].rank)) continue;
    least = std::min(least, counts[host]);
    most = std::max(most, counts[host]);
  }
  EXPECT_LE(most - least, 1);
  // A primary moves only from a host that has as many as it may have.
  for (size_t i = 0; i < shards.size(); ++i) {
    const int before = shards[i].primary;
    if (before < 0 || placements[i].primary_rank == hosts[before].rank)
      continue;
    EXPECT_EQ(stay[before], counts[before]);
    EXPECT_TRUE(is_free(hosts[before].rank) || counts[before] >= least);
  }
}

TEST(ShardPlacingTest, AnyShardsOnAnyHostsArePlacedInBalance) {
  std::mt19937 random(7);
  const auto pick = [&random](int bound) {
    return static_cast<int>(random() % static_cast<unsigned>(bound));
  };
  for (int run = 0; run < 5'000; ++run) {
    std::vector<std::string> machines;
    for (int i = pick(8); i >= 0; --i) {
      machines.push_back(std::to_string(pick(4)));
    }
    std::vector<ShardHolder> hosts = Hosts(machines, pick(5));
    for (ShardHolder& host : hosts) host.is_leaving = pick(4) == 0;
    std::vector<ShardCopies> shards(static_cast<size_t>(1 + pick(12)));
    for (ShardCopies& shard : shards) {
      std::set<int> holders;
      for (int i = pick(3); i > 0; --i) {
        holders.insert(pick(static_cast<int>(hosts.size())));
      }
      shard.holders.assign(holders.begin(), holders.end());
      shard.primary = pick(static_cast<int>(hosts.size()) + 1) - 1;
    }
    const int replicas = pick(2);
    const int lanes = 1 + pick(3);
    const auto placements = PlaceShards(hosts, shards, lanes, replicas);
    Check(hosts, shards, replicas, placements);
    EXPECT_EQ(placements, PlaceShards(hosts, shards, lanes, replicas));
  }
}

}  // namespace
}  // namespace ringmaster::coordinator
