#include "worker/parameter_server/shard_state.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/optimizer/optimizer.h"
#include "common/plan/counter_random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

// The second bucket is more than one block, and decays in part.
ShardDescription Described() {
  ShardDescription description;
  description.shard = 1;
  description.first_bucket = 4;
  description.bucket_elems = {128, (1 << 16) + 640, 64};
  const int64_t total = description.num_elems();
  description.stretches = {{{0, 1000}, true},
                           {{1000, total - 1000}, false, 0.75}};
  return description;
}

float Element(uint64_t key, int64_t at) {
  return static_cast<float>(
      UnitInterval(CounterRandom(key, static_cast<uint64_t>(at))) - 0.5);
}

class ShardStateTest : public ::testing::Test {
 protected:
  std::unique_ptr<ShardState> Make(const OptimizerConfig& optimizer,
                                   bool is_in_place = false) {
    auto state = ShardState::Create(Described(), {optimizer, 100, is_in_place},
                                    heap_, heap_);
    EXPECT_TRUE(state.ok()) << state.status();
    return *std::move(state);
  }
  static void Load(ShardState& state, int64_t step) {
    for (int bucket = 0; bucket < state.buckets(); ++bucket) {
      for (int part = 0; part < state.parts(); ++part) {
        const auto which = static_cast<StatePart>(part);
        const absl::Span<float> into = state.BeginLoad(bucket, which, step);
        for (size_t i = 0; i < into.size(); ++i) {
          into[i] = std::abs(Element(static_cast<uint64_t>(10 * part + bucket),
                                     static_cast<int64_t>(i)));
        }
        state.EndLoad(bucket, which, step, step);
      }
    }
  }
  static void Fill(ShardState& state, int bucket, uint64_t key) {
    ASSERT_TRUE(state.BeginGradient(bucket).ok());
    const absl::Span<float> gradient = state.Gradient(bucket);
    for (size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = Element(key, static_cast<int64_t>(i));
  }
  // All parts of all buckets.
  static std::vector<float> All(const ShardState& state) {
    std::vector<float> all;
    for (int bucket = 0; bucket < state.buckets(); ++bucket) {
      for (int part = 0; part < state.parts(); ++part) {
        const auto values = state.Values(bucket, static_cast<StatePart>(part));
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    return all;
  }
  void Step(ShardState& state, int64_t step) {
    for (int bucket = 0; bucket < state.buckets(); ++bucket) {
      Fill(state, bucket, static_cast<uint64_t>(100 * step + bucket));
      (void)state.Apply(pool_, bucket, step, 0.5);
      state.EndGradient(bucket);
    }
  }

  HeapAllocator heap_;
  ThreadPool pool_{2};
};

TEST_F(ShardStateTest, AnUpdateIsWhatTheOptimizerMakesOfTheWholeShard) {
  const OptimizerConfig kConfigs[] = {
      {},
      {.kind = "sgd"},
      {.kind = "sgd", .momentum = 0.9},
      {.schedule = {.kind = "linear", .warmup_steps = 2}},
      {.schedule = {.kind = "wsd", .final_ratio = 0.5, .decay_steps = 96}}};
  for (const OptimizerConfig& config : kConfigs) {
    const auto state = Make(config);
    Load(*state, 6);
    const int64_t count = state->BucketElems(1);
    const auto copy = [&](StatePart part) {
      if (!state->Has(part)) return std::vector<float>();
      const auto values = state->Values(1, part);
      return std::vector<float>(values.begin(), values.end());
    };
    std::vector<float> p = copy(StatePart::kParameters);
    std::vector<float> m = copy(StatePart::kFirstMoment);
    std::vector<float> v = copy(StatePart::kSecondMoment);
    Fill(*state, 1, 3);
    const auto gradient = state->Gradient(1);
    const std::vector<float> g(gradient.begin(), gradient.end());
    const ShardState::Made made = state->Apply(pool_, 1, 7, 0.5);

    // Bucket 1 begins at element 128; decay ends at 1000.
    const int64_t border = 1000 - 128;
    const auto part = [](std::vector<float>& all, int64_t begin, int64_t end) {
      return all.empty() ? absl::Span<float>()
                         : absl::MakeSpan(all).subspan(
                               static_cast<size_t>(begin),
                               static_cast<size_t>(end - begin));
    };
    for (const auto& [begin, end, decays, rate] :
         {std::tuple(int64_t{0}, border, true, 1.0),
          std::tuple(border, count, false, 0.75)}) {
      std::vector<float> gradients = g;
      ApplyOptimizer<float>(
          config,
          {.step = 7,
           .learning_rate = rate * LearningRateAt(config.schedule,
                                                  config.learning_rate, 7, 100),
           .gradient_scale = 0.5,
           .decays = decays},
          {part(p, begin, end), part(gradients, begin, end),
           part(m, begin, end), part(v, begin, end)});
    }
    EXPECT_EQ(copy(StatePart::kParameters), p) << config.kind;
    EXPECT_EQ(copy(StatePart::kFirstMoment), m) << config.kind;
    EXPECT_EQ(copy(StatePart::kSecondMoment), v) << config.kind;
    double squares = 0;
    for (const float x : g) squares += static_cast<double>(x) * x;
    EXPECT_NEAR(made.norm_squared, squares, 1e-9 * squares);
    EXPECT_FALSE(made.is_left_out);
  }
}

TEST_F(ShardStateTest, AStepIsCompleteWithItsLastBucket) {
  const auto state = Make({});
  EXPECT_FALSE(state->is_loaded());
  Load(*state, 2);
  EXPECT_TRUE(state->is_loaded());
  EXPECT_EQ(state->complete_step(), 2);
  for (const int bucket : {2, 0}) {
    Fill(*state, bucket, 1);
    (void)state->Apply(pool_, bucket, 3, 1);
    EXPECT_EQ(state->complete_step(), 2);
  }
  Fill(*state, 1, 1);
  (void)state->Apply(pool_, 1, 3, 1);
  EXPECT_EQ(state->complete_step(), 3);
  EXPECT_EQ(state->VersionOf(1), 3);
}

TEST_F(ShardStateTest, IsTakenBackByOneStepWholeOrInPart) {
  const auto state = Make({});
  Load(*state, 0);
  Step(*state, 1);
  const std::vector<float> first = All(*state);
  Step(*state, 2);
  const std::vector<float> second = All(*state);
  ASSERT_TRUE(state->ResumeAt(1).ok());
  EXPECT_EQ(All(*state), first);
  EXPECT_EQ(state->complete_step(), 1);
  // Some buckets of a step only.
  Fill(*state, 2, 77);
  (void)state->Apply(pool_, 2, 2, 1);
  ASSERT_TRUE(state->ResumeAt(1).ok());
  EXPECT_EQ(All(*state), first);
  Step(*state, 2);
  EXPECT_EQ(All(*state), second);
  EXPECT_EQ(state->complete_step(), 2);
}

TEST_F(ShardStateTest, CannotGoBackByTwoStepsOrForth) {
  const auto state = Make({});
  EXPECT_TRUE(absl::IsFailedPrecondition(state->ResumeAt(0)));
  Load(*state, 4);
  Step(*state, 5);
  for (const int64_t step : {3, 6}) {
    const absl::Status status = state->ResumeAt(step);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("shard 1 is here as of step 5"));
  }
}

TEST_F(ShardStateTest, AGradientThatIsNotFiniteIsLeftOut) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const bool is_in_place : {false, true}) {
    const auto state = Make({}, is_in_place);
    Load(*state, 1);
    const std::vector<float> before = All(*state);
    Fill(*state, 0, 5);
    state->Gradient(0)[7] = infinity;
    const ShardState::Made made = is_in_place
                                      ? state->ApplyPart(pool_, 0, 2, 1, 1)
                                      : state->Apply(pool_, 0, 2, 1);
    EXPECT_TRUE(made.is_left_out);
    EXPECT_FALSE(std::isfinite(made.norm_squared));
    EXPECT_EQ(All(*state), before);
    EXPECT_EQ(state->VersionOf(0), 2);
  }
}

TEST_F(ShardStateTest, AFactorThatIsNotFiniteLeavesTheUpdateOut) {
  const auto state = Make({});
  Load(*state, 1);
  const std::vector<float> before = All(*state);
  Fill(*state, 1, 5);
  EXPECT_TRUE(
      state->Apply(pool_, 1, 2, std::numeric_limits<double>::quiet_NaN())
          .is_left_out);
  EXPECT_EQ(All(*state), before);
}

TEST_F(ShardStateTest, PartsOfAStepMakeItTogetherForPlainSgd) {
  const OptimizerConfig config = {.kind = "sgd", .weight_decay = 0};
  const auto whole = Make(config);
  const auto parts = Make(config, /*is_in_place=*/true);
  Load(*whole, 0);
  Load(*parts, 0);
  ASSERT_TRUE(parts->BeginGradient(0).ok());
  ASSERT_TRUE(whole->BeginGradient(0).ok());
  // Two workers' gradients, each a part of the mean, and their sum.
  for (const float part : {0.25f, 0.5f}) {
    for (float& each : parts->Gradient(0)) each = part;
    (void)parts->ApplyPart(pool_, 0, 1, /*scale=*/2, /*workers=*/2);
  }
  for (float& each : whole->Gradient(0)) each = 0.75f;
  (void)whole->Apply(pool_, 0, 1, 1);
  const auto expected = whole->Values(0, StatePart::kParameters);
  const auto got = parts->Values(0, StatePart::kParameters);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], 1e-6);
  EXPECT_EQ(parts->UpdatesOf(0), 2);
  parts->MarkComplete(1);
  EXPECT_EQ(parts->complete_step(), 1);
}

TEST_F(ShardStateTest, ACopyThatIsGivenTheSameStaysTheSame) {
  const auto first = Make({});
  Load(*first, 0);
  Step(*first, 1);
  const auto copy = Make({});
  for (int bucket = 0; bucket < first->buckets(); ++bucket) {
    for (int part = 0; part < first->parts(); ++part) {
      const auto which = static_cast<StatePart>(part);
      const auto from = first->Values(bucket, which);
      std::copy(from.begin(), from.end(),
                copy->BeginLoad(bucket, which, 1).begin());
      copy->EndLoad(bucket, which, 1, first->UpdatesOf(bucket));
    }
  }
  Step(*first, 2);
  Step(*copy, 2);
  EXPECT_EQ(All(*copy), All(*first));
}

TEST_F(ShardStateTest, GradientsAreOfTheBucketsUnderWayOnly) {
  const auto state = Make({});
  Load(*state, 0);
  const float* const first = state->BeginGradient(0)->data();
  EXPECT_EQ(state->BeginGradient(0)->data(), first);
  EXPECT_NE(state->BeginGradient(1)->data(), first);
  state->EndGradient(0);
  EXPECT_EQ(state->BeginGradient(2)->data(), first);
  EXPECT_EQ(state->Gradient(2).size(), 64u);
  state->EndGradients();
  state->EndGradient(1);
}

TEST_F(ShardStateTest, ALoadThatWasBegunMakesItUnloaded) {
  const auto state = Make({});
  Load(*state, 3);
  (void)state->BeginLoad(1, StatePart::kParameters, 9);
  EXPECT_FALSE(state->is_loaded());
  EXPECT_TRUE(absl::IsFailedPrecondition(state->ResumeAt(3)));
}

}  // namespace
}  // namespace ringmaster
