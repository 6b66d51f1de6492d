#include "worker/train/exchange/shard_description.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringmaster {
namespace {

// Tensors of 100, 30 and 200 elements, cut into buckets of 64.
Plan MakePlan() {
  PlanOptions options;
  options.bucket_bytes = 64 * 4;
  return Plan::Create("m",
                      {{"a", Shape({100}), Initializer::Constant(0)},
                       {"b", Shape({30}), Initializer::Constant(0)},
                       {"c", Shape({200}), Initializer::Constant(0)}},
                      options)
      .value();
}

TEST(ShardDescriptionTest, ShardsShareTheStretchesOfTheArenas) {
  const Plan plan = MakePlan();
  const int64_t total = plan.total_elems();
  const std::vector<UpdateStretch> stretches = {
      {{0, 128}, true}, {{128, total - 128}, false, 0.5}};
  for (const int count : {1, 2, 3, 4}) {
    const ShardLayout layout = ShardLayout::Create(plan, count).value();
    int64_t elems = 0;
    int next_bucket = 0;
    for (const Shard& shard : layout.shards()) {
      const ShardDescription description =
          DescribeShard(shard, plan, stretches);
      EXPECT_TRUE(Validate(description).ok()) << Validate(description);
      EXPECT_EQ(description.plan_hash, plan.hash());
      EXPECT_EQ(description.first_bucket, next_bucket);
      next_bucket += static_cast<int>(description.bucket_elems.size());
      for (const UpdateStretch& stretch : description.stretches) {
        for (int64_t i = stretch.range.begin; i < stretch.range.end(); ++i)
          EXPECT_EQ(stretch.decays, elems + i < 128);
      }
      elems += description.num_elems();
    }
    EXPECT_EQ(elems, total);
    EXPECT_EQ(next_bucket, static_cast<int>(plan.buckets().size()));
  }
}

}  // namespace
}  // namespace ringmaster
