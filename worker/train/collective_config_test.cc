#include "worker/train/collective_config.h"

#include "gtest/gtest.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {
namespace {

TEST(CollectiveConfigTest, WhatIsLeftOutIsChosen) {
  const absl::StatusOr<CollectiveConfig> config =
      ParseCollective(v1::CollectiveSpec());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(*config, CollectiveConfig());
}

TEST(CollectiveConfigTest, EveryNameHasItsCounterpart) {
  v1::CollectiveSpec spec;
  for (const Algorithm algorithm : kAlgorithms) {
    spec.set_algorithm(static_cast<v1::CollectiveAlgorithm>(algorithm));
    EXPECT_EQ(ParseCollective(spec)->algorithm, algorithm);
  }
  EXPECT_EQ(v1::CollectiveAlgorithm_ARRAYSIZE,
            static_cast<int>(kAlgorithms.size()) + 1);
  spec.set_transport(v1::COLLECTIVE_TRANSPORT_UNIX);
  EXPECT_EQ(ParseCollective(spec)->best_transport, Transport::kUnix);
  spec.set_transport(v1::COLLECTIVE_TRANSPORT_TCP);
  EXPECT_EQ(ParseCollective(spec)->best_transport, Transport::kTcp);
  spec.set_wire(v1::COLLECTIVE_WIRE_FLOAT16);
  EXPECT_EQ(ParseCollective(spec)->wire, DType::kFloat16);
  spec.set_wire(v1::COLLECTIVE_WIRE_BFLOAT16);
  EXPECT_EQ(ParseCollective(spec)->wire, DType::kBFloat16);
  spec.set_connections(4);
  EXPECT_EQ(ParseCollective(spec)->connections, 4);
}

TEST(CollectiveConfigTest, AValueOfALaterVersionIsNamed) {
  v1::CollectiveSpec spec;
  spec.set_wire(static_cast<v1::CollectiveWire>(9));
  const absl::Status status = ParseCollective(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "collective.wire is 9, which this worker does not know; it may be "
            "older than the coordinator");
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
