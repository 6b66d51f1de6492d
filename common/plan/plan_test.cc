#include "common/plan/plan.h"

#include <string>
#include <vector>

#include "common/plan/counter_random.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

std::vector<TensorSpec> SpecsOfSizes(const std::vector<int64_t>& sizes) {
  std::vector<TensorSpec> specs;
  for (size_t i = 0; i < sizes.size(); ++i)
    specs.push_back({"t" + std::to_string(i), {sizes[i]}, {}});
  return specs;
}

Plan MakePlan(const std::vector<int64_t>& sizes, int64_t bucket_bytes) {
  absl::StatusOr<Plan> plan =
      Plan::Create("m", SpecsOfSizes(sizes), {.bucket_bytes = bucket_bytes});
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

void ExpectInvariants(const Plan& plan, int64_t max_bucket_elems) {
  int64_t previous_end = 0;
  int64_t parameter_count = 0;
  for (const PlannedTensor& tensor : plan.tensors()) {
    EXPECT_EQ(tensor.range.begin % kTensorAlignElems, 0);
    EXPECT_GE(tensor.range.begin, previous_end);
    EXPECT_LT(tensor.range.begin, previous_end + kTensorAlignElems);
    EXPECT_EQ(tensor.range.count, tensor.spec.shape.num_elems());
    previous_end = tensor.range.end();
    parameter_count += tensor.range.count;
  }
  EXPECT_LT(plan.total_elems() - previous_end, kTensorAlignElems);
  EXPECT_EQ(plan.parameter_count(), parameter_count);

  int64_t next_begin = 0;
  int previous_ready = 0;
  for (const Bucket& bucket : plan.buckets()) {
    EXPECT_EQ(bucket.range.begin, next_begin);
    EXPECT_EQ(bucket.range.begin % kTensorAlignElems, 0);
    EXPECT_GT(bucket.range.count, 0);
    EXPECT_LE(bucket.range.count, max_bucket_elems);
    EXPECT_GE(bucket.ready_tensor, previous_ready);
    // The tensor that completes a bucket is the last one with an element in it.
    int last_inside = -1;
    for (int i = 0; i < static_cast<int>(plan.tensors().size()); ++i) {
      const ElemRange range = plan.tensors()[i].range;
      if (range.begin < bucket.range.end() && range.end() > bucket.range.begin)
        last_inside = i;
    }
    EXPECT_EQ(bucket.ready_tensor, last_inside);
    previous_ready = bucket.ready_tensor;
    next_begin = bucket.range.end();
  }
  EXPECT_EQ(next_begin, plan.total_elems());
}

void ExpectBucketsCompletedInOrder(const Plan& plan) {
  const Bucket* next = plan.buckets().data();
  for (int i = 0; i < static_cast<int>(plan.tensors().size()); ++i) {
    for (const Bucket& bucket : plan.BucketsCompletedBy(i)) {
      EXPECT_EQ(&bucket, next++);
      EXPECT_EQ(bucket.ready_tensor, i);
    }
  }
  EXPECT_EQ(next, plan.buckets().data() + plan.buckets().size());
}

TEST(PlanTest, KeepsItsInvariantsForManyModelsAndBucketSizes) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<int64_t> sizes;
    const int tensor_count = 1 + static_cast<int>(CounterRandom(seed, 0) % 12);
    for (int i = 1; i <= tensor_count; ++i) {
      const int64_t magnitude = int64_t{1} << (CounterRandom(seed, 2 * i) % 14);
      sizes.push_back(
          1 + static_cast<int64_t>(CounterRandom(seed, 2 * i + 1) % magnitude));
    }
    for (int64_t bucket_bytes : {1, 256, 300, 1024, 4096, 1 << 20}) {
      const Plan plan = MakePlan(sizes, bucket_bytes);
      SCOPED_TRACE(plan.ToString());
      ExpectInvariants(plan,
                       std::max<int64_t>(kTensorAlignElems, bucket_bytes / 4));
      ExpectBucketsCompletedInOrder(plan);
    }
  }
}

TEST(PlanTest, ClosesAHalfFullBucketBeforeALargeTensor) {
  // 256 elements a bucket: t0 fills half of one, and need not wait for t1.
  const Plan plan = MakePlan({128, 600, 64}, 1024);
  ASSERT_GE(plan.buckets().size(), 2u);
  EXPECT_EQ(plan.buckets()[0].range, (ElemRange{0, 128}));
  EXPECT_EQ(plan.buckets()[0].ready_tensor, 0);
  EXPECT_EQ(plan.BucketsCompletedBy(1).size(), 2u);
  EXPECT_EQ(plan.BucketsCompletedBy(2).size(), 1u);
}

TEST(PlanTest, PutsSmallTensorsTogether) {
  const Plan plan = MakePlan({10, 20, 30}, 1 << 20);
  ASSERT_EQ(plan.buckets().size(), 1u);
  EXPECT_EQ(plan.buckets()[0].range, (ElemRange{0, 192}));
  EXPECT_EQ(plan.buckets()[0].ready_tensor, 2);
  EXPECT_TRUE(plan.BucketsCompletedBy(0).empty());
}

TEST(PlanTest, OffsetsDependNeitherOnDtypeNorOnBucketSize) {
  const std::vector<TensorSpec> specs = SpecsOfSizes({100, 7, 3000});
  const Plan a = *Plan::Create("m", specs, {});
  const Plan b = *Plan::Create("m", specs,
                               {.parameter_dtype = DType::kBFloat16,
                                .gradient_dtype = DType::kFloat64,
                                .bucket_bytes = 512});
  ASSERT_EQ(a.total_elems(), b.total_elems());
  for (size_t i = 0; i < specs.size(); ++i)
    EXPECT_EQ(a.tensors()[i].range, b.tensors()[i].range);
}

TEST(PlanTest, HashIsEqualForEqualInputsAndDiffersForAnyDifference) {
  const PlanOptions options = {.bucket_bytes = 1024, .settings = "lr=0.1"};
  const std::vector<TensorSpec> specs = SpecsOfSizes({100, 200});
  const Plan base = *Plan::Create("m", specs, options);
  EXPECT_EQ(base.hash(), Plan::Create("m", specs, options)->hash());

  std::vector<uint64_t> others;
  others.push_back(Plan::Create("n", specs, options)->hash());
  others.push_back(
      Plan::Create("m", SpecsOfSizes({200, 100}), options)->hash());
  others.push_back(
      Plan::Create("m", SpecsOfSizes({100, 201}), options)->hash());
  std::vector<TensorSpec> changed = specs;
  changed[0].name = "other";
  others.push_back(Plan::Create("m", changed, options)->hash());
  changed = specs;
  changed[0].shape = {10, 10};
  others.push_back(Plan::Create("m", changed, options)->hash());
  changed = specs;
  changed[1].init = Initializer::Uniform(0.5);
  others.push_back(Plan::Create("m", changed, options)->hash());
  PlanOptions other = options;
  other.settings = "lr=0.2";
  others.push_back(Plan::Create("m", specs, other)->hash());
  other = options;
  other.bucket_bytes = 512;
  others.push_back(Plan::Create("m", specs, other)->hash());
  other = options;
  other.parameter_dtype = DType::kBFloat16;
  others.push_back(Plan::Create("m", specs, other)->hash());
  other = options;
  other.gradient_dtype = DType::kBFloat16;
  others.push_back(Plan::Create("m", specs, other)->hash());
  for (size_t i = 0; i < others.size(); ++i)
    EXPECT_NE(others[i], base.hash()) << "variant " << i;
}

TEST(PlanTest, TextTellsEachTensorAndBucket) {
  const std::vector<TensorSpec> specs = {
      {"out.weight", {2, 40}, Initializer::Uniform(0.25)},
      {"out.bias", {2}, Initializer::Constant(0)}};
  const Plan plan =
      *Plan::Create("mlp", specs, {.bucket_bytes = 256, .settings = "seed=1"});
  EXPECT_EQ(plan.ToString(),
            "model mlp parameters=82 total_elems=192 parameter_dtype=float32 "
            "gradient_dtype=float32\n"
            "tensor 0 out.weight [2,40] begin=0 init=uniform(0.25)\n"
            "tensor 1 out.bias [2] begin=128 init=constant(0)\n"
            "bucket 0 begin=0 count=64 ready_tensor=0\n"
            "bucket 1 begin=64 count=64 ready_tensor=0\n"
            "bucket 2 begin=128 count=64 ready_tensor=1\n"
            "settings seed=1\n");
}

TEST(PlanTest, RunningStatisticsComeFirstAndAreNoParameters) {
  const std::vector<TensorSpec> specs = {
      {"mean", {3}, {}, 0.1},
      {"var", {3}, Initializer::Constant(1), 0.1},
      {"weight", {2, 40}, {}}};
  const Plan plan = *Plan::Create("m", specs, {});
  EXPECT_EQ(plan.statistic_elems(), 128);
  EXPECT_EQ(plan.parameter_count(), 80);
  EXPECT_NE(plan.ToString().find("tracked 1 rate=0.1"), std::string::npos);
  EXPECT_EQ(Plan::Create("m", SpecsOfSizes({5}), {})->statistic_elems(), 0);
}

struct BadInput {
  const char* what;
  std::string model;
  std::vector<TensorSpec> specs;
  int64_t bucket_bytes;
  const char* message;
};

TEST(PlanTest, RefusesBadInputAndSaysWhy) {
  const BadInput kBad[] = {
      {"model name", "a b", SpecsOfSizes({1}), 64,
       "\"a b\" is not a model name"},
      {"no tensor", "m", {}, 64, "has no tensor"},
      {"tensor name", "m", {{"", {1}, {}}}, 64, "\"\" is not a tensor name"},
      {"repeated name",
       "m",
       {{"a", {1}, {}}, {"a", {2}, {}}},
       64,
       "two tensors are called a"},
      {"empty tensor",
       "m",
       {{"a", {3, 0}, {}}},
       64,
       "tensor a is empty: [3,0]"},
      {"tracking rate",
       "m",
       {{"a", {1}, {}, 2}},
       64,
       "tensor a is tracked at the rate 2, but it must be in [0, 1]"},
      {"statistic after a parameter",
       "m",
       {{"a", {1}, {}}, {"b", {1}, {}, 0.1}},
       64,
       "tensor b is a running statistic, but comes after a parameter"},
      {"bucket size", "m", SpecsOfSizes({1}), 0, "bucket_bytes is 0"},
  };
  for (const BadInput& bad : kBad) {
    SCOPED_TRACE(bad.what);
    const absl::Status status =
        Plan::Create(bad.model, bad.specs, {.bucket_bytes = bad.bucket_bytes})
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(status.message()).find(bad.message),
              std::string::npos)
        << status;
  }
}

}  // namespace
}  // namespace ringmaster
