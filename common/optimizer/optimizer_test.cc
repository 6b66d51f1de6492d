#include "common/optimizer/optimizer.h"

#include <algorithm>
#include <vector>

#include "absl/types/span.h"
#include "common/optimizer/adamw.h"
#include "common/optimizer/sgd.h"
#include "common/plan/counter_random.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

// Several of ApplyOptimizer's blocks, and part of one.
constexpr size_t kCount = (size_t{5} << 16) + 123;
constexpr Update kUpdate = {
    .step = 3, .learning_rate = 0.1, .gradient_scale = 0.5};

struct State {
  State() : p(kCount), g(kCount), m(kCount), v(kCount) {
    for (size_t i = 0; i < kCount; ++i) {
      p[i] = static_cast<float>(UnitInterval(CounterRandom(1, i)) - 0.5);
      g[i] = static_cast<float>(UnitInterval(CounterRandom(2, i)) - 0.5);
      m[i] = static_cast<float>(UnitInterval(CounterRandom(3, i)) - 0.5);
      v[i] = static_cast<float>(UnitInterval(CounterRandom(4, i)));
    }
  }
  // With as many moments as the optimizer has.
  OptimizerSlice<float> Slice(const OptimizerConfig& config) {
    OptimizerSlice<float> slice = {absl::MakeSpan(p), g};
    if (MomentsOf(config) >= 1) slice.first_moment = absl::MakeSpan(m);
    if (MomentsOf(config) >= 2) slice.second_moment = absl::MakeSpan(v);
    return slice;
  }

  std::vector<float> p, g, m, v;
};

TEST(ApplyOptimizerTest, EveryPoolGivesWhatOneCallOfTheNamedOneGives) {
  const OptimizerConfig kConfigs[] = {
      {},
      {.kind = "sgd"},
      {.kind = "sgd", .momentum = 0.9},
  };
  for (const OptimizerConfig& config : kConfigs) {
    State expected;
    if (config.kind == "sgd") {
      ApplySgd<float>(config, kUpdate, expected.Slice(config));
    } else {
      ApplyAdamW<float>(config, kUpdate, expected.Slice(config));
    }
    EXPECT_NE(expected.p, State().p);
    for (int threads : {1, 3}) {
      ThreadPool pool(threads);
      State state;
      ApplyOptimizer<float>(pool, config, kUpdate, state.Slice(config));
      EXPECT_EQ(state.p, expected.p) << config.kind;
      EXPECT_EQ(state.m, expected.m) << config.kind;
      EXPECT_EQ(state.v, expected.v) << config.kind;
    }
  }
}

TEST(ApplyOptimizerTest, AnUpdateIntoOtherMemoryHasTheBitsOfOneInPlace) {
  const OptimizerConfig kConfigs[] = {
      {},
      {.kind = "sgd"},
      {.kind = "sgd", .momentum = 0.9},
      {.kind = "sgd", .momentum = 0.9, .nesterov = true},
  };
  for (const OptimizerConfig& config : kConfigs) {
    State in_place;
    ApplyOptimizer<float>(config, kUpdate, in_place.Slice(config));
    State old;
    State written;
    for (std::vector<float>* elems : {&written.p, &written.m, &written.v})
      std::fill(elems->begin(), elems->end(), 7.0f);
    OptimizerSlice<float> slice = written.Slice(config);
    const OptimizerSlice<float> source = old.Slice(config);
    slice.from = {source.parameters, source.first_moment, source.second_moment};
    ThreadPool pool(2);
    ApplyOptimizer<float>(pool, config, kUpdate, slice);
    EXPECT_EQ(written.p, in_place.p) << config.kind;
    if (MomentsOf(config) >= 1) {
      EXPECT_EQ(written.m, in_place.m) << config.kind;
    }
    if (MomentsOf(config) >= 2) {
      EXPECT_EQ(written.v, in_place.v) << config.kind;
    }
    EXPECT_EQ(old.p, State().p) << config.kind;
    EXPECT_EQ(old.m, State().m) << config.kind;
    EXPECT_EQ(old.v, State().v) << config.kind;
  }
}

TEST(ApplyOptimizerTest, ARunningStatisticGoesItsPartOfTheWay) {
  const OptimizerConfig kConfigs[] = {
      {}, {.kind = "sgd", .momentum = 0.9, .weight_decay = 0.5}};
  Update update = kUpdate;
  update.tracking_rate = 0.25;
  update.statistic_scale = 2;
  for (const OptimizerConfig& config : kConfigs) {
    State state;
    const State before;
    ApplyOptimizer<float>(config, update, state.Slice(config));
    for (size_t i = 0; i < 100; ++i)
      EXPECT_EQ(state.p[i], before.p[i] - 0.25f * (2 * before.g[i]));
    EXPECT_EQ(state.m, before.m);
    EXPECT_EQ(state.v, before.v);
  }
}

TEST(MomentsOfTest, CountsWhatTheOptimizerKeeps) {
  EXPECT_EQ(MomentsOf({}), 2);
  EXPECT_EQ(MomentsOf({.kind = "sgd"}), 0);
  EXPECT_EQ(MomentsOf({.kind = "sgd", .momentum = 0.9}), 1);
}

TEST(DecaysWeightsTest, SparesVectorsIfToldTo) {
  EXPECT_TRUE(DecaysWeights({}, 1));
  EXPECT_TRUE(DecaysWeights({.decay_matrices_only = true}, 2));
  EXPECT_TRUE(DecaysWeights({.decay_matrices_only = true}, 4));
  EXPECT_FALSE(DecaysWeights({.decay_matrices_only = true}, 1));
}

}  // namespace
}  // namespace ringmaster
