#include "worker/collective/algorithm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ringmaster {
namespace {

TEST(AlgorithmTest, EveryNameParsesToItsAlgorithm) {
  EXPECT_EQ(*ParseAlgorithm("auto"), Algorithm::kAuto);
  for (const Algorithm algorithm : kAlgorithms)
    EXPECT_EQ(*ParseAlgorithm(AlgorithmName(algorithm)), algorithm);
}

TEST(AlgorithmTest, AnotherNameIsRefusedWithAllThereAre) {
  const auto parsed = ParseAlgorithm("rign");
  EXPECT_EQ(std::string(parsed.status().message()),
            "no algorithm is called \"rign\"; there are auto, ring, "
            "halving_doubling, direct, exchange, gather_broadcast, "
            "hierarchical");
}

}  // namespace
}  // namespace ringmaster
