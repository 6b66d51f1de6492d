#include "common/plan/mesh.h"

#include <algorithm>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;

Topology InTurn(int world_size, int hosts) {
  std::vector<int> host_of_rank;
  for (int rank = 0; rank < world_size; ++rank) {
    host_of_rank.push_back(rank % hosts);
  }
  return Topology(host_of_rank);
}

TEST(PeersOfTest, AreEverybodyInASmallWorld) {
  EXPECT_THAT(PeersOf(1, Topology::OneHost(4)), ElementsAre(0, 2, 3));
  EXPECT_EQ(PeersOf(7, Topology::OneHost(16)).size(), 15u);
}

TEST(MirrorDistancesTest, CopiesAreOnOtherHosts) {
  EXPECT_THAT(MirrorDistances(1, Topology::OneHost(4)), ElementsAre(1));
  EXPECT_THAT(MirrorDistances(2, Topology::OneHost(4)), ElementsAre(1, 2));
  EXPECT_THAT(MirrorDistances(1, Topology::OfHosts({3, 3})), ElementsAre(3));
  EXPECT_THAT(MirrorDistances(2, Topology::OfHosts({2, 2, 2})),
              ElementsAre(2, 3));
  EXPECT_THAT(MirrorDistances(1, InTurn(6, 2)), ElementsAre(1));
  // Rank 3 alone is on the other host: whatever the distance, one rank's copy
  // goes there.
  EXPECT_THAT(MirrorDistances(1, Topology::OfHosts({3, 1})), ElementsAre(1));
}

TEST(MirrorDistancesTest, AreAsManyAsThereAreOthers) {
  EXPECT_THAT(MirrorDistances(2, Topology::OneHost(1)), ElementsAre());
  EXPECT_THAT(MirrorDistances(2, Topology::OneHost(2)), ElementsAre(1));
  EXPECT_THAT(MirrorDistances(0, Topology::OneHost(8)), ElementsAre());
}

TEST(MirrorDistancesTest, AreOfConnectedRanks) {
  for (const int n : {16, 17, 24, 100}) {
    for (const int hosts : {1, 3, 8}) {
      const Topology topology = InTurn(n, hosts);
      for (const int distance : MirrorDistances(2, topology)) {
        for (int rank = 0; rank < n; ++rank) {
          const std::vector<int> peers = PeersOf(rank, topology);
          EXPECT_TRUE(std::binary_search(peers.begin(), peers.end(),
                                         (rank + distance) % n))
              << distance << " from " << rank << " of " << n;
        }
      }
    }
  }
}

TEST(PeersOfTest, AreSymmetric) {
  for (const int n : {2, 5, 16, 17, 40, 100}) {
    for (const int hosts : {1, 2, 3, n}) {
      const Topology topology = InTurn(n, hosts);
      for (int rank = 0; rank < n; ++rank) {
        for (const int peer : PeersOf(rank, topology)) {
          const std::vector<int> back = PeersOf(peer, topology);
          EXPECT_TRUE(std::binary_search(back.begin(), back.end(), rank))
              << rank << " and " << peer << " of " << n;
        }
      }
    }
  }
}

TEST(PeersOfTest, AreFewInALargeWorld) {
  // The ring and the barrier: 1, 2, 4 ... 64 either way; halving-doubling from
  // place 28, which is rank 64, and the rest of hosts of 4.
  std::vector<int> host_of_rank;
  for (int rank = 0; rank < 100; ++rank) host_of_rank.push_back(rank / 4);
  EXPECT_LE(PeersOf(64, Topology(host_of_rank)).size(), 26u);
}

}  // namespace
}  // namespace ringmaster
