#include "worker/member/collective_config.h"

#include <iterator>

#include "gtest/gtest.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {
namespace {

TEST(CollectiveConfigTest, WhatIsLeftOutIsChosen) {
  EXPECT_EQ(CollectiveConfigOf(v1::CollectiveSpec()), CollectiveConfig());
}

TEST(CollectiveConfigTest, EveryNameHasItsCounterpart) {
  v1::CollectiveSpec spec;
  for (const Algorithm algorithm : kAlgorithms) {
    spec.set_algorithm(static_cast<v1::CollectiveAlgorithm>(algorithm));
    EXPECT_EQ(CollectiveConfigOf(spec).algorithm, algorithm);
  }
  EXPECT_EQ(v1::CollectiveAlgorithm_ARRAYSIZE,
            static_cast<int>(kAlgorithms.size()) + 1);
  EXPECT_EQ(v1::CollectiveTransport_ARRAYSIZE,
            static_cast<int>(std::size(kTransportPairs)) + 1);
  EXPECT_EQ(v1::CollectiveWire_ARRAYSIZE,
            static_cast<int>(std::size(kWirePairs)) + 1);
  spec.set_transport(v1::COLLECTIVE_TRANSPORT_UNIX);
  EXPECT_EQ(CollectiveConfigOf(spec).best_transport, Transport::kUnix);
  spec.set_transport(v1::COLLECTIVE_TRANSPORT_TCP);
  EXPECT_EQ(CollectiveConfigOf(spec).best_transport, Transport::kTcp);
  spec.set_wire(v1::COLLECTIVE_WIRE_FLOAT16);
  EXPECT_EQ(CollectiveConfigOf(spec).wire, DType::kFloat16);
  spec.set_wire(v1::COLLECTIVE_WIRE_BFLOAT16);
  EXPECT_EQ(CollectiveConfigOf(spec).wire, DType::kBFloat16);
  spec.set_connections(4);
  EXPECT_EQ(CollectiveConfigOf(spec).connections, 4);
}

TEST(CollectiveConfigTest, ThePolicyGoesByTheTransportThatTheJobAsksFor) {
  MachineCosts costs;
  costs.tcp = {3e-6, 3e-10};
  const AlgorithmPolicy policy = PolicyOf(
      {.algorithm = Algorithm::kRing, .best_transport = Transport::kTcp},
      costs);
  EXPECT_EQ(policy.algorithm, Algorithm::kRing);
  EXPECT_EQ(policy.costs.local, costs.tcp);
}

TEST(CollectiveConfigTest, AnAlgorithmThatManyRanksCannotRunIsRemarkedOn) {
  const Topology many = Topology::OfHosts({16, 16});
  EXPECT_EQ(UnusableRemark({.algorithm = Algorithm::kExchange}, many),
            "exchange needs connections that 32 ranks on 2 hosts do not have; "
            "chosen by costs instead");
  EXPECT_EQ(UnusableRemark({.algorithm = Algorithm::kRing}, many), "");
  EXPECT_EQ(UnusableRemark({}, many), "");
  EXPECT_EQ(
      UnusableRemark({.algorithm = Algorithm::kExchange}, Topology::OneHost(4)),
      "");
}

}  // namespace
}  // namespace ringmaster
