#include "common/parameter_server/shard_layout.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

// A plan with a bucket of at most `bucket_elems` float32.
Plan MakePlan(const std::vector<int64_t>& sizes, int64_t bucket_elems) {
  std::vector<TensorSpec> specs;
  for (size_t i = 0; i < sizes.size(); ++i)
    specs.push_back({absl::StrCat("t", i), {sizes[i]}, {}});
  return *Plan::Create("m", specs, {.bucket_bytes = 4 * bucket_elems});
}

ShardDescription Described() {
  ShardDescription description;
  description.shard = 2;
  description.first_bucket = 7;
  description.first_elem = 4480;
  description.plan_hash = 0x123456789abcdef0u;
  description.bucket_elems = {640, 64, 1280};
  description.stretches = {{{0, 600}, true}, {{600, 1384}, false, 0.75}};
  return description;
}

TEST(ShardLayoutTest, ShardsTileTheBucketsAndTheElements) {
  const Plan plan = MakePlan({1000, 64, 5000, 640, 320}, 640);
  const int buckets = static_cast<int>(plan.buckets().size());
  for (int shards = 1; shards <= buckets; ++shards) {
    const auto layout = ShardLayout::Create(plan, shards);
    ASSERT_TRUE(layout.ok()) << layout.status();
    ASSERT_EQ(layout->shards().size(), static_cast<size_t>(shards));
    int bucket = 0;
    int64_t elem = 0;
    for (const Shard& shard : layout->shards()) {
      EXPECT_EQ(shard.first_bucket, bucket);
      EXPECT_GE(shard.bucket_count, 1);
      EXPECT_EQ(shard.range.begin, elem);
      EXPECT_EQ(shard.range.begin,
                plan.buckets()[static_cast<size_t>(bucket)].range.begin);
      for (int i = 0; i < shard.bucket_count; ++i)
        EXPECT_EQ(layout->ShardOf(bucket + i).index, shard.index);
      bucket += shard.bucket_count;
      elem = shard.range.end();
    }
    EXPECT_EQ(bucket, buckets);
    EXPECT_EQ(elem, plan.total_elems());
  }
}

TEST(ShardLayoutTest, ShardsAreAboutEqualInSize) {
  const Plan plan = MakePlan(std::vector<int64_t>(10, 6400), 640);
  for (const int shards : {2, 3, 4, 7}) {
    const auto layout = ShardLayout::Create(plan, shards);
    for (const Shard& shard : layout->shards()) {
      EXPECT_NEAR(static_cast<double>(shard.range.count),
                  static_cast<double>(plan.total_elems()) / shards, 640);
    }
  }
}

TEST(ShardLayoutTest, FewerBucketsThanShardsAreRefused) {
  const Plan plan = MakePlan({100}, 640);
  const absl::Status status = ShardLayout::Create(plan, 2).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("train.parameter_server asks for 2 shards"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("only 1 bucket:"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("train.bucket_bytes"));
}

TEST(ShardDescriptionTest, ComesBackAsItWas) {
  EXPECT_EQ(*ParseShardDescription(Encode(Described())), Described());
  EXPECT_EQ(Described().num_elems(), 1984);
}

TEST(ShardDescriptionTest, TellsTheRateOfRunningStatistics) {
  ShardDescription description = Described();
  description.stretches = {
      {{0, 64}, false, 0.1}, {{64, 536}, true}, {{600, 1384}, false}};
  EXPECT_EQ(*ParseShardDescription(Encode(description)), description);
  description.stretches[0].tracking_rate = 2;
  EXPECT_THAT(
      std::string(
          ParseShardDescription(Encode(description)).status().message()),
      HasSubstr("a stretch that decays 4611686018427387904"));
}

TEST(ShardDescriptionTest, DamageIsRefused) {
  const std::vector<std::byte> whole = Encode(Described());
  for (size_t i = 0; i < whole.size(); ++i) {
    std::vector<std::byte> bytes = whole;
    bytes[i] ^= std::byte{0x10};
    EXPECT_TRUE(absl::IsDataLoss(ParseShardDescription(bytes).status())) << i;
    bytes = whole;
    bytes.resize(i);
    EXPECT_TRUE(absl::IsDataLoss(ParseShardDescription(bytes).status())) << i;
  }
}

// Expects that `description` is invalid, with an error that contains `named`.
void ExpectInvalid(const ShardDescription& description,
                   const std::string& named) {
  const absl::Status status = Validate(description);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(named));
  // A description from the wire is validated, too.
  EXPECT_TRUE(
      absl::IsDataLoss(ParseShardDescription(Encode(description)).status()));
}

TEST(ShardDescriptionTest, RefusesWhatCannotBe) {
  EXPECT_TRUE(Validate(Described()).ok());
  ShardDescription description = Described();
  description.bucket_elems.clear();
  ExpectInvalid(description, "shard 2: it has no bucket");
  description = Described();
  description.bucket_elems[1] = 0;
  ExpectInvalid(description, "a bucket of 0 elements, after 640");
  description = Described();
  description.bucket_elems[1] = kMaxShardElems;
  ExpectInvalid(description, "a bucket of");
  description = Described();
  description.stretches[1].range.begin = 601;
  ExpectInvalid(description, "where 1384 were left at 600");
  description = Described();
  description.stretches[1].range.count += 1;
  ExpectInvalid(description, "a stretch of 1385 elements at 600");
  description = Described();
  for (const double rate :
       {0.0, -0.5, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    description = Described();
    description.stretches[1].rate = rate;
    ExpectInvalid(description, "a stretch at 600 with the rate ");
  }
  description = Described();
  description.stretches.pop_back();
  ExpectInvalid(description, "its stretches end at 600 of 1984 elements");
  description = Described();
  description.first_bucket = -1;
  ExpectInvalid(description, "negative");
  description = Described();
  description.first_elem = -1;
  ExpectInvalid(description, "negative");
}

}  // namespace
}  // namespace ringmaster
