#include "worker/collective/cost_model.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "worker/collective/schedule.h"

namespace ringmaster {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

// Shared memory inside a host, and a network of 1 GB/s between hosts.
constexpr CollectiveCosts kCosts = {
    .local = {.latency = 2e-6, .seconds_per_byte = 1e-10},
    .remote = {.latency = 50e-6, .seconds_per_byte = 1e-9},
    .reduce_seconds_per_byte = 5e-11,
    .cores_per_host = 64};

// `hosts` hosts of `ranks` ranks each, one host after the other.
Topology Hosts(int hosts, int ranks) {
  std::vector<int> host_of_rank;
  for (int rank = 0; rank < hosts * ranks; ++rank) {
    host_of_rank.push_back(rank / ranks);
  }
  return Topology(host_of_rank);
}

TEST(PredictAllReduceTest, IsTheTextbooksFormulaInsideAHost) {
  const Topology topology = Topology::OneHost(8);
  const double alpha = kCosts.local.latency;
  const double beta = kMiB * kCosts.local.seconds_per_byte;
  const double gamma = kMiB * kCosts.reduce_seconds_per_byte;
  const auto predict = [&topology](Algorithm algorithm) {
    return PredictAllReduce(algorithm, kMiB, topology, kCosts);
  };
  EXPECT_NEAR(predict(Algorithm::kRing),
              14 * alpha + 14 * beta / 8 + 7 * gamma / 8, 1e-9);
  EXPECT_NEAR(predict(Algorithm::kHalvingDoubling),
              6 * alpha + 14 * beta / 8 + 7 * gamma / 8, 1e-9);
  EXPECT_NEAR(predict(Algorithm::kDirect),
              2 * alpha * (1 + 6.0 / 8) + 14 * beta / 8 + 7 * gamma / 8, 1e-9);
  EXPECT_NEAR(predict(Algorithm::kExchange),
              alpha * (1 + 6.0 / 8) + 8 * beta + 7 * gamma, 1e-9);
  EXPECT_NEAR(predict(Algorithm::kGatherBroadcast),
              2 * alpha * (1 + 6.0 / 8) + 7 * beta + 7 * gamma, 1e-9);
  EXPECT_EQ(predict(Algorithm::kHierarchical), predict(Algorithm::kDirect));
}

TEST(PredictAllReduceTest, AFoldedRankCostsTwoMoreMessagesAndTheBuffer) {
  const auto predict = [](int n) {
    return PredictAllReduce(Algorithm::kHalvingDoubling, kMiB,
                            Topology::OneHost(n), kCosts);
  };
  const double more =
      2 * kCosts.local.latency +
      kMiB * (kCosts.local.seconds_per_byte + kCosts.reduce_seconds_per_byte);
  EXPECT_NEAR(predict(5), predict(4) + more, 1e-9);
}

TEST(PredictAllReduceTest, RanksOfAHostShareItsNetwork) {
  const Topology topology = Hosts(4, 4);
  const double beta = kMiB * kCosts.remote.seconds_per_byte;
  const double ring =
      PredictAllReduce(Algorithm::kRing, kMiB, topology, kCosts);
  const double direct =
      PredictAllReduce(Algorithm::kDirect, kMiB, topology, kCosts);
  EXPECT_GT(ring, 30.0 / 16 * beta);      // one of four ranks sends elsewhere
  EXPECT_LT(ring, 30.0 / 16 * beta * 2);  // and the rest is quicker
  // Four ranks send to twelve.
  EXPECT_GT(direct, 4 * 24.0 / 16 * beta);
}

TEST(PredictAllReduceTest, HierarchicalSendsLeastBetweenHosts) {
  const double beta = kMiB * kCosts.remote.seconds_per_byte;
  const double seconds =
      PredictAllReduce(Algorithm::kHierarchical, kMiB, Hosts(4, 4), kCosts);
  const double local =
      kMiB * (2 * 3.0 / 4 * kCosts.local.seconds_per_byte +
              (3.0 / 4 + 3.0 / 16) * kCosts.reduce_seconds_per_byte) +
      2 * kCosts.local.latency * (1 + 2.0 / 8);
  EXPECT_NEAR(seconds, 6 * kCosts.remote.latency + 6.0 / 4 * beta + local,
              1e-9);
}

TEST(PredictAllReduceTest, MoreRanksThanCoresTakeTurns) {
  CollectiveCosts few = kCosts;
  few.cores_per_host = 2;
  few.local.latency = 0;
  CollectiveCosts enough = few;
  enough.cores_per_host = 8;
  const Topology topology = Topology::OneHost(8);
  for (const Algorithm algorithm :
       {Algorithm::kRing, Algorithm::kDirect, Algorithm::kExchange}) {
    EXPECT_NEAR(PredictAllReduce(algorithm, kMiB, topology, few),
                4 * PredictAllReduce(algorithm, kMiB, topology, enough), 1e-12)
        << AlgorithmName(algorithm);
  }
}

TEST(PredictAllReduceTest, GrowsWithTheBytes) {
  for (const Topology& topology :
       {Topology::OneHost(2), Topology::OneHost(7), Hosts(3, 4), Hosts(5, 1)}) {
    for (const Algorithm algorithm : kAlgorithms) {
      double before = 0;
      for (int64_t bytes = 1; bytes <= 64 * kMiB; bytes *= 4) {
        const double seconds =
            PredictAllReduce(algorithm, bytes, topology, kCosts);
        EXPECT_GT(seconds, before) << AlgorithmName(algorithm) << bytes;
        before = seconds;
      }
    }
  }
}

TEST(PredictAllReduceTest, OneRankNeedsNoTime) {
  EXPECT_EQ(
      PredictAllReduce(Algorithm::kRing, kMiB, Topology::OneHost(1), kCosts),
      0);
}

TEST(ChooseAllReduceTest, ExchangesSmallBuffers) {
  for (const Topology& topology :
       {Topology::OneHost(2), Topology::OneHost(8), Hosts(4, 1), Hosts(2, 4)}) {
    EXPECT_EQ(ChooseAllReduce(64, topology, kCosts), Algorithm::kExchange);
  }
}

TEST(ChooseAllReduceTest, GoesDirectInsideAHostForLargeBuffers) {
  for (const int n : {3, 4, 5, 8, 16}) {
    EXPECT_EQ(ChooseAllReduce(64 * kMiB, Topology::OneHost(n), kCosts),
              Algorithm::kDirect)
        << n;
  }
  // With two ranks the ring is the same, and named first.
  EXPECT_EQ(ChooseAllReduce(64 * kMiB, Topology::OneHost(2), kCosts),
            Algorithm::kRing);
}

TEST(ChooseAllReduceTest, SparesTheNetworkBetweenHosts) {
  for (const int hosts : {3, 5, 6, 20}) {
    EXPECT_EQ(ChooseAllReduce(64 * kMiB, Hosts(hosts, 4), kCosts),
              Algorithm::kHierarchical)
        << hosts;
  }
}

// With powers of two, host after host, halving-doubling sends as little between
// hosts; where neighbours are on different hosts it does not.
TEST(ChooseAllReduceTest, SeesHowRanksAreSpread) {
  EXPECT_EQ(ChooseAllReduce(64 * kMiB, Hosts(4, 4), kCosts),
            Algorithm::kHalvingDoubling);
  std::vector<int> in_turn;
  for (int rank = 0; rank < 16; ++rank) in_turn.push_back(rank % 4);
  EXPECT_EQ(ChooseAllReduce(64 * kMiB, Topology(in_turn), kCosts),
            Algorithm::kHierarchical);
}

// In a large world without many ranks on a host there are only these two.
TEST(ChooseAllReduceTest, TheRingWinsLaterWhereLatencyIsHigh) {
  const Topology topology = Hosts(24, 1);
  const auto crossover = [&topology](double latency) {
    CollectiveCosts costs = kCosts;
    costs.remote.latency = latency;
    int64_t bytes = kKiB;
    while (bytes < 1024 * kMiB &&
           ChooseAllReduce(bytes, topology, costs) != Algorithm::kRing) {
      EXPECT_EQ(ChooseAllReduce(bytes, topology, costs),
                Algorithm::kHalvingDoubling);
      bytes *= 2;
    }
    return bytes;
  };
  const int64_t low = crossover(10e-6);
  const int64_t high = crossover(160e-6);
  EXPECT_GT(low, kKiB);
  EXPECT_LT(high, 1024 * kMiB);
  EXPECT_EQ(high, 16 * low);
}

TEST(ChooseAllReduceTest, TakesOnlyWhatIsUsable) {
  for (const int n : {2, 16, 17, 24, 40}) {
    for (const Topology& topology :
         {Topology::OneHost(n), Hosts(n, 1), Hosts(2, n)}) {
      for (int64_t bytes = 4; bytes <= 256 * kMiB; bytes *= 8) {
        const Algorithm choice = ChooseAllReduce(bytes, topology, kCosts);
        EXPECT_TRUE(IsUsable(choice, topology));
        EXPECT_NE(choice, Algorithm::kGatherBroadcast);
      }
    }
  }
}

TEST(CostsOverTest, TheBestTransportDecidesWhatAPairOfAHostCosts) {
  MachineCosts machine;
  machine.shared_memory = {1e-6, 1e-10};
  machine.unix_socket = {2e-6, 2e-10};
  machine.tcp = {3e-6, 3e-10};
  machine.remote = {4e-6, 4e-10};
  machine.reduce_seconds_per_byte = 5e-11;
  machine.cores = 6;
  const CollectiveCosts costs = CostsOver(Transport::kSharedMemory, machine);
  EXPECT_EQ(costs.local, machine.shared_memory);
  EXPECT_EQ(costs.remote, machine.remote);
  EXPECT_EQ(costs.reduce_seconds_per_byte, 5e-11);
  EXPECT_EQ(costs.cores_per_host, 6);
  EXPECT_EQ(CostsOver(Transport::kUnix, machine).local, machine.unix_socket);
  EXPECT_EQ(CostsOver(Transport::kTcp, machine).local, machine.tcp);
}

}  // namespace
}  // namespace ringmaster
