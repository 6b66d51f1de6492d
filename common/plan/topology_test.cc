#include "common/plan/topology.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;

TEST(TopologyTest, NumbersHostsByTheirSmallestRank) {
  const Topology topology({70, -2, 70, 9, -2});
  EXPECT_EQ(topology.world_size(), 5);
  EXPECT_EQ(topology.host_count(), 3);
  EXPECT_EQ(topology.HostOf(0), 0);
  EXPECT_EQ(topology.HostOf(1), 1);
  EXPECT_EQ(topology.HostOf(3), 2);
  EXPECT_THAT(topology.RanksOf(0), ElementsAre(0, 2));
  EXPECT_THAT(topology.RanksOf(1), ElementsAre(1, 4));
  EXPECT_THAT(topology.RanksOf(2), ElementsAre(3));
}

TEST(TopologyTest, KnowsWhoIsTogether) {
  const Topology topology({1, 0, 1});
  EXPECT_TRUE(topology.AreTogether(0, 2));
  EXPECT_TRUE(topology.AreTogether(1, 1));
  EXPECT_FALSE(topology.AreTogether(0, 1));
}

TEST(TopologyTest, OneHostHasAllRanks) {
  const Topology topology = Topology::OneHost(3);
  EXPECT_EQ(topology.host_count(), 1);
  EXPECT_THAT(topology.RanksOf(0), ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace ringmaster
