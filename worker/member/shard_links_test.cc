#include "worker/member/shard_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

RankAssignment Assignment(int rank, int workers,
                          const ShardPlacements& placements) {
  RankAssignment assignment;
  assignment.rank = rank;
  assignment.world_size = workers;
  assignment.shard_placements = placements;
  return assignment;
}

ShardPlacements Placements(const std::vector<int>& hosts,
                           std::vector<ShardPlacement> shards) {
  ShardPlacements placements;
  for (const int host : hosts)
    placements.hosts.push_back({host, absl::StrCat("127.0.0.1:", 1000 + host)});
  placements.shards = std::move(shards);
  return placements;
}

// Each connection that a member makes is one that its peer accepts, in the same
// role.
void ExpectBothEndsAgree(int members, int workers,
                         const ShardPlacements& placements, int lanes = 1) {
  using Key = std::tuple<int, int, LinkRole, int>;  // from, to, ..., lane
  std::map<Key, int> made;
  std::map<Key, int> accepted;
  for (int rank = 0; rank < members; ++rank) {
    const auto plan =
        PlanShardLinks(Assignment(rank, workers, placements), lanes, {});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->lanes.size(), static_cast<size_t>(lanes));
    int counted = 0;
    for (const ShardLinkPlan::Lane& lane : plan->lanes)
      counted += lane.hosts + lane.workers + lane.givers + lane.takers;
    EXPECT_EQ(plan->connections.size(), static_cast<size_t>(counted));
    for (const PeerConnection& connection : plan->connections) {
      EXPECT_NE(connection.rank, rank);
      if (connection.address.empty()) {
        ++accepted[{connection.rank, rank, connection.role,
                    connection.first_stripe}];
      } else {
        EXPECT_EQ(connection.address,
                  absl::StrCat("127.0.0.1:", 1000 + connection.rank));
        ++made[{rank, connection.rank, connection.role,
                connection.first_stripe}];
      }
    }
  }
  EXPECT_EQ(made, accepted);
  for (const auto& [key, count] : made) EXPECT_EQ(count, 1);
}

TEST(ShardLinksTest, BothEndsOfEachConnectionAgree) {
  ExpectBothEndsAgree(3, 2, Placements({2}, {{2, -1, -1}}));
  ExpectBothEndsAgree(5, 2,
                      Placements({2, 3, 4}, {{2, 3, 2}, {3, 4, 2}, {4, 2, 2}}));
  // The workers hold the shards; the last one's source is neither its primary
  // nor its backup.
  ExpectBothEndsAgree(
      3, 3, Placements({0, 1, 2}, {{0, 1, 2}, {1, 0, 1}, {2, -1, 0}}));
}

TEST(ShardLinksTest, EachLaneHasConnectionsOfItsOwn) {
  ExpectBothEndsAgree(3, 2, Placements({2}, {{2, -1, -1}, {2, -1, -1}}), 2);
  // Copies go from 2 to 3 on one lane, and from 3 to 2 on the other.
  const ShardPlacements placements =
      Placements({2, 3}, {{2, 3, -1}, {3, 2, -1}});
  ExpectBothEndsAgree(4, 2, placements, 2);
  const auto plan = PlanShardLinks(Assignment(2, 2, placements), 2, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->lanes[0].takers, 1);
  EXPECT_EQ(plan->lanes[0].givers, 0);
  EXPECT_EQ(plan->lanes[1].takers, 0);
  EXPECT_EQ(plan->lanes[1].givers, 1);
  // More lanes than shards: some have nothing to do.
  ExpectBothEndsAgree(3, 2, Placements({2}, {{2, -1, -1}}), 3);
}

TEST(ShardLinksTest, AWorkerThatHoldsShardsReachesItselfByALoopback) {
  const auto plan =
      PlanShardLinks(Assignment(0, 1, Placements({0}, {{0}, {0}})), 2, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->connections.empty());
  const auto links = AssembleShardLinks(0, *plan, {});
  ASSERT_TRUE(links.ok()) << links.status();
  ASSERT_EQ(links->hosts.size(), 2u);
  ASSERT_EQ(links->host.size(), 2u);
  for (const size_t lane : {0, 1}) {
    EXPECT_EQ(links->hosts[lane].rank, 0);
    EXPECT_EQ(links->hosts[lane].lane, static_cast<int>(lane));
    ASSERT_EQ(links->host[lane].workers.size(), 1u);
    EXPECT_EQ(links->host[lane].workers[0].channel->transport(),
              Transport::kLoopback);
  }
}

TEST(ShardLinksTest, AServerHasNoLinkAsAWorker) {
  const auto plan = PlanShardLinks(
      Assignment(2, 2, Placements({2, 3}, {{2, 3, -1}, {3, 2, -1}})), 1, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->lanes.size(), 1u);
  EXPECT_EQ(plan->lanes[0].hosts, 0);
  EXPECT_EQ(plan->lanes[0].workers, 2);
  EXPECT_EQ(plan->lanes[0].givers, 1);
  EXPECT_EQ(plan->lanes[0].takers, 1);
  EXPECT_FALSE(plan->is_own_host);
}

TEST(ShardLinksTest, PlacementsThatAreNotWholeAreRefused) {
  const auto unknown =
      PlanShardLinks(Assignment(0, 2, Placements({2}, {{2, 3, -1}})), 1, {});
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.status().message()),
              HasSubstr("rank 3 holds shard 0"));
  const auto none =
      PlanShardLinks(Assignment(0, 2, Placements({2}, {})), 1, {});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ringmaster
