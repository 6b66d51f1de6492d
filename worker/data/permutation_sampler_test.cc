#include "worker/data/permutation_sampler.h"

#include <cmath>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(PermutationSamplerTest, EveryEpochHoldsEverySampleExactlyOnce) {
  for (int64_t num_samples :
       {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4096, 4097}) {
    const PermutationSampler sampler(42, num_samples);
    for (int64_t epoch : {0, 1, 2, 1000000}) {
      std::vector<int> seen(static_cast<size_t>(num_samples));
      for (int64_t i = 0; i < num_samples; ++i) {
        const int64_t sample = sampler.SampleAt(epoch * num_samples + i);
        ASSERT_GE(sample, 0);
        ASSERT_LT(sample, num_samples);
        ++seen[static_cast<size_t>(sample)];
      }
      for (int count : seen)
        ASSERT_EQ(count, 1) << num_samples << " samples, epoch " << epoch;
    }
  }
}

TEST(PermutationSamplerTest, OrderDependsOnSeedAndEpoch) {
  constexpr int64_t kSamples = 1000;
  const PermutationSampler a(1, kSamples);
  const PermutationSampler b(2, kSamples);
  int same_seed = 0;
  int same_epoch = 0;
  for (int64_t i = 0; i < kSamples; ++i) {
    same_seed += a.SampleAt(i) == b.SampleAt(i);
    same_epoch += a.SampleAt(i) == a.SampleAt(kSamples + i);
  }
  // A random permutation has one fixed point on average.
  EXPECT_LT(same_seed, 10);
  EXPECT_LT(same_epoch, 10);
}

TEST(PermutationSamplerTest, LooksLikeARandomOrder) {
  constexpr int64_t kSamples = 10007;
  const PermutationSampler sampler(3, kSamples);
  // The correlation of a sample with its position and with the sample before
  // it.
  double position = 0;
  double neighbour = 0;
  const double mean = (kSamples - 1) / 2.0;
  const double variance = (static_cast<double>(kSamples) * kSamples - 1) / 12;
  for (int64_t i = 0; i < kSamples; ++i) {
    const double x = static_cast<double>(sampler.SampleAt(i)) - mean;
    position += x * (static_cast<double>(i) - mean);
    neighbour +=
        x * (static_cast<double>(sampler.SampleAt((i + 1) % kSamples)) - mean);
  }
  const double kBound =
      4 / std::sqrt(static_cast<double>(kSamples));  // four standard deviations
  EXPECT_LT(std::abs(position / kSamples / variance), kBound);
  EXPECT_LT(std::abs(neighbour / kSamples / variance), kBound);
}

TEST(PermutationSamplerTest, StepsFollowOneAnotherAcrossEpochs) {
  constexpr int64_t kSamples = 10;
  constexpr int64_t kBatch = 4;
  const PermutationSampler sampler(9, kSamples);
  std::vector<int64_t> all;
  for (int64_t step = 1; step <= 5; ++step) {
    std::vector<int64_t> ids(kBatch);
    sampler.SamplesOf(step, kBatch, {0, kBatch}, absl::MakeSpan(ids));
    all.insert(all.end(), ids.begin(), ids.end());
  }
  // Five steps of four are two epochs of ten: step 3 has samples of both.
  EXPECT_EQ(std::set<int64_t>(all.begin(), all.begin() + 10).size(), 10u);
  EXPECT_EQ(std::set<int64_t>(all.begin() + 10, all.end()).size(), 10u);
  EXPECT_EQ(sampler.EpochOf(1, kBatch), 0);
  EXPECT_EQ(sampler.EpochOf(3, kBatch), 0);
  EXPECT_EQ(sampler.EpochOf(4, kBatch), 1);
}

TEST(PermutationSamplerTest,
     PartsOfAllRanksAreTheGlobalBatchForEveryWorldSize) {
  constexpr int64_t kBatch = 13;
  const PermutationSampler sampler(9, 100);
  std::vector<int64_t> whole(kBatch);
  sampler.SamplesOf(7, kBatch, {0, kBatch}, absl::MakeSpan(whole));
  for (int world_size : {1, 2, 3, 8, 13, 16}) {
    std::vector<int64_t> joined;
    for (int rank = 0; rank < world_size; ++rank) {
      const ElemRange part = ChunkOf(rank, world_size, kBatch);
      std::vector<int64_t> ids(static_cast<size_t>(part.count));
      sampler.SamplesOf(7, kBatch, part, absl::MakeSpan(ids));
      joined.insert(joined.end(), ids.begin(), ids.end());
    }
    EXPECT_EQ(joined, whole) << world_size << " ranks";
  }
}

TEST(PermutationSamplerTest, WorksForVeryManySamples) {
  const int64_t num_samples = (int64_t{1} << 40) + 1;
  const PermutationSampler sampler(1, num_samples);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t sample = sampler.SampleAt(num_samples * 1000 + i);
    EXPECT_LT(sample, num_samples);
    seen.insert(sample);
  }
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_GT(*seen.rbegin(), num_samples / 2);
}

// Pinned: a changed order would change what a resumed job trains on.
TEST(PermutationSamplerTest, KeepsItsOrderFromReleaseToRelease) {
  const PermutationSampler sampler(1, 1000);
  EXPECT_EQ(sampler.SampleAt(0), 527);
  EXPECT_EQ(sampler.SampleAt(1), 86);
  EXPECT_EQ(sampler.SampleAt(1000), 825);
}

TEST(PermutationSamplerTest, AStepMayHaveSamplesOfTwoEpochs) {
  const PermutationSampler sampler(1, 10);
  std::vector<int64_t> epochs(3);
  sampler.EpochsOf(3, 4, {0, 3}, absl::MakeSpan(epochs));
  EXPECT_EQ(epochs, (std::vector<int64_t>{0, 0, 1}));
  sampler.EpochsOf(5, 4, {1, 3}, absl::MakeSpan(epochs));
  EXPECT_EQ(epochs, (std::vector<int64_t>{1, 1, 1}));
}

}  // namespace
}  // namespace ringmaster
