// Tests the contract of Dataset with the synthetic one; text_dataset_test.cc
// tests what is special about files.
#include "worker/data/dataset.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

std::unique_ptr<Dataset> Make(const DataConfig& config) {
  absl::StatusOr<std::unique_ptr<Dataset>> dataset = CreateDataset(config);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return *std::move(dataset);
}

std::vector<int32_t> Tokens(const Dataset& dataset, Split split, int64_t id) {
  Batch batch(1, dataset.shape());
  EXPECT_TRUE(dataset.FillBatch(split, {id}, batch).ok());
  std::vector<int32_t> tokens(batch.inputs().begin(), batch.inputs().end());
  tokens.push_back(batch.targets()[0]);
  return tokens;
}

TEST(SyntheticDatasetTest, HoldsOutTheLastFraction) {
  const auto dataset = Make(
      {.shape = {.tokens = 4}, .eval_fraction = 0.25, .num_samples = 1000});
  EXPECT_EQ(dataset->size(Split::kTrain), 750);
  EXPECT_EQ(dataset->size(Split::kHeldOut), 250);
  // The held-out samples are those that would come next.
  const auto all =
      Make({.shape = {.tokens = 4}, .eval_fraction = 0, .num_samples = 1000});
  EXPECT_EQ(Tokens(*dataset, Split::kHeldOut, 3),
            Tokens(*all, Split::kTrain, 753));
  EXPECT_EQ(all->size(Split::kHeldOut), 0);
}

TEST(SyntheticDatasetTest, SampleDependsOnSeedAndIdAlone) {
  const auto a = Make({.shape = {.tokens = 16}, .seed = 5, .num_samples = 100});
  const auto b = Make({.shape = {.tokens = 16}, .seed = 5, .num_samples = 100});
  const auto c = Make({.shape = {.tokens = 16}, .seed = 6, .num_samples = 100});
  EXPECT_EQ(Tokens(*a, Split::kTrain, 42), Tokens(*b, Split::kTrain, 42));
  EXPECT_NE(Tokens(*a, Split::kTrain, 42), Tokens(*a, Split::kTrain, 43));
  EXPECT_NE(Tokens(*a, Split::kTrain, 42), Tokens(*c, Split::kTrain, 42));
}

TEST(SyntheticDatasetTest, FollowsAHiddenRuleSevenTimesInEight) {
  const auto dataset =
      Make({.shape = {.tokens = 16}, .eval_fraction = 0, .num_samples = 2000});
  std::map<int32_t, std::map<int32_t, int>> counts;
  int64_t pairs = 0;
  for (int64_t id = 0; id < dataset->size(Split::kTrain); ++id) {
    const std::vector<int32_t> tokens = Tokens(*dataset, Split::kTrain, id);
    for (size_t i = 0; i + 1 < tokens.size(); ++i, ++pairs) {
      ASSERT_GE(tokens[i], 0);
      ASSERT_LT(tokens[i], 64);
      ++counts[tokens[i]][tokens[i + 1]];
    }
  }
  EXPECT_EQ(counts.size(), 64u);
  int64_t most_frequent = 0;
  for (const auto& [token, successors] : counts) {
    most_frequent += std::max_element(successors.begin(), successors.end(),
                                      [](const auto& a, const auto& b) {
                                        return a.second < b.second;
                                      })
                         ->second;
  }
  EXPECT_NEAR(static_cast<double>(most_frequent) / static_cast<double>(pairs),
              7.0 / 8 + 1.0 / 8 / 64, 0.01);
}

TEST(SyntheticDatasetTest, ATargetForEachTokenIsTheTokenAfterIt) {
  const auto dataset =
      Make({.shape = {.tokens = 8, .targets = 8}, .num_samples = 100});
  const auto last = Make({.shape = {.tokens = 8}, .num_samples = 100});
  Batch batch(1, dataset->shape());
  ASSERT_TRUE(dataset->FillBatch(Split::kTrain, {5}, batch).ok());
  std::vector<int32_t> chain = {batch.inputs()[0]};
  chain.insert(chain.end(), batch.targets().begin(), batch.targets().end());
  EXPECT_EQ(chain, Tokens(*last, Split::kTrain, 5));
  EXPECT_TRUE(std::equal(batch.inputs().begin() + 1, batch.inputs().end(),
                         batch.targets().begin()));
}

TEST(SyntheticDatasetTest, ItsTokensMustFitTheModel) {
  const absl::Status status = CreateDataset({.vocabulary = 63}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST(SyntheticDatasetTest, FingerprintTellsSeedAndSize) {
  const uint64_t base = Make({.seed = 1, .num_samples = 100})->fingerprint();
  EXPECT_EQ(Make({.seed = 1, .num_samples = 100})->fingerprint(), base);
  EXPECT_NE(Make({.seed = 2, .num_samples = 100})->fingerprint(), base);
  EXPECT_NE(Make({.seed = 1, .num_samples = 101})->fingerprint(), base);
}

TEST(DatasetTest, FillsTheRequestedSamplesInOrder) {
  const auto dataset = Make({.shape = {.tokens = 3}, .num_samples = 100});
  Batch batch(8, {.tokens = 3});
  const std::vector<int64_t> ids = {7, 0, 7};
  ASSERT_TRUE(dataset->FillBatch(Split::kTrain, ids, batch).ok());
  EXPECT_EQ(batch.size(), 3);
  for (size_t i = 0; i < ids.size(); ++i) {
    std::vector<int32_t> tokens(
        batch.inputs().begin() + 3 * static_cast<ptrdiff_t>(i),
        batch.inputs().begin() + 3 * static_cast<ptrdiff_t>(i + 1));
    tokens.push_back(batch.targets()[i]);
    EXPECT_EQ(tokens, Tokens(*dataset, Split::kTrain, ids[i]));
    EXPECT_EQ(batch.sample_ids()[i], ids[i]);
  }
  ASSERT_TRUE(dataset->FillBatch(Split::kTrain, {}, batch).ok());
  EXPECT_EQ(batch.size(), 0);
  EXPECT_TRUE(batch.inputs().empty());
}

TEST(DatasetTest, RefusesWhatDoesNotFit) {
  const auto dataset =
      Make({.shape = {.tokens = 3}, .eval_fraction = 0.1, .num_samples = 100});
  Batch batch(2, {.tokens = 3});
  Batch narrow(2, {.tokens = 2});
  const absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(dataset->FillBatch(Split::kTrain, {90}, batch).code(), kInvalid);
  EXPECT_EQ(dataset->FillBatch(Split::kTrain, {-1}, batch).code(), kInvalid);
  EXPECT_EQ(dataset->FillBatch(Split::kHeldOut, {10}, batch).code(), kInvalid);
  EXPECT_EQ(dataset->FillBatch(Split::kTrain, {1, 2, 3}, batch).code(),
            kInvalid);
  EXPECT_EQ(dataset->FillBatch(Split::kTrain, {1}, narrow).code(), kInvalid);
}

TEST(CreateDatasetTest, RefusesABadConfig) {
  DataConfig config;
  config.shape = {.tokens = 0};
  EXPECT_EQ(CreateDataset(config).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CreateDatasetTest, HeldOutSamplesMustBeThereWhereTheyAreWanted) {
  DataConfig config;
  config.num_samples = 5;
  config.eval_fraction = 0.1;
  EXPECT_EQ(Make(config)->size(Split::kHeldOut), 0);
  config.needs_held_out = true;
  const absl::Status status = CreateDataset(config).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_EQ(std::string(status.message()).find("data.eval_fraction: "), 0u)
      << status;
}

TEST(CreateDatasetTest, OneSampleIsEnoughToTrainOn) {
  const auto dataset = Make({.eval_fraction = 0.999, .num_samples = 1});
  EXPECT_EQ(dataset->size(Split::kTrain), 1);
}

}  // namespace
}  // namespace ringmaster
