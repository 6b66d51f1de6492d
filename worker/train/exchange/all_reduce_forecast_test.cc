#include "worker/train/exchange/all_reduce_forecast.h"

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

std::vector<Bucket> Buckets(const std::vector<int64_t>& counts) {
  std::vector<Bucket> buckets;
  for (const int64_t count : counts) buckets.push_back({{0, count}, 0});
  return buckets;
}

TEST(AllReduceForecastTest, AddsUpWhatTheModelPredictsForEachBucket) {
  const Topology topology = Topology::OneHost(4);
  AlgorithmPolicy policy;
  policy.algorithm = Algorithm::kRing;
  const AllReduceForecast forecast =
      ForecastAllReduces(Buckets({1000, 3000}), std::nullopt, topology, policy);
  const double seconds =
      PredictAllReduce(Algorithm::kRing, 4000, topology, policy.costs) +
      PredictAllReduce(Algorithm::kRing, 12000, topology, policy.costs);
  EXPECT_NEAR(absl::ToDoubleSeconds(forecast.duration), seconds, 1e-9);
  EXPECT_EQ(forecast.algorithms, std::vector<Algorithm>{Algorithm::kRing});
}

TEST(AllReduceForecastTest, HalfTheBytesTravelAsSixteenBits) {
  const Topology topology = Topology::OneHost(2);
  AlgorithmPolicy policy;
  policy.algorithm = Algorithm::kDirect;
  EXPECT_EQ(
      ForecastAllReduces(Buckets({4096}), DType::kBFloat16, topology, policy)
          .duration,
      ForecastAllReduces(Buckets({2048}), std::nullopt, topology, policy)
          .duration);
}

TEST(AllReduceForecastTest, NamesTheAlgorithmsFromTheSmallestBucketOn) {
  const Topology topology = Topology::OneHost(4);
  const AlgorithmPolicy policy;
  const AllReduceForecast forecast = ForecastAllReduces(
      Buckets({1 << 22, 64, 1 << 21, 64}), std::nullopt, topology, policy);
  const std::vector<Algorithm> expected = {
      ChooseAllReduce(256, topology, policy.costs),
      ChooseAllReduce(4 << 21, topology, policy.costs)};
  ASSERT_NE(expected[0], expected[1]);
  EXPECT_EQ(forecast.algorithms, expected);
}

TEST(AllReduceForecastTest, AloneThereIsNothingToReduce) {
  const AllReduceForecast forecast = ForecastAllReduces(
      Buckets({64}), std::nullopt, Topology::OneHost(1), AlgorithmPolicy());
  EXPECT_EQ(forecast.duration, absl::ZeroDuration());
  EXPECT_TRUE(forecast.algorithms.empty());
}

}  // namespace
}  // namespace ringmaster
