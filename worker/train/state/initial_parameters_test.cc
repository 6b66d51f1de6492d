#include "worker/train/state/initial_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/clock/clock.h"
#include "common/job/field_rules.h"
#include "worker/collective/testing/world_of_threads.h"
#include "worker/train/state/program_config.h"
#include "worker/train/testing/rank_threads.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

ProgramConfig Job(uint64_t seed) {
  ProgramConfig config;
  config.model = {.kind = "mlp",
                  .settings = {{"window", {8}},
                               {"embedding_dim", {8}},
                               {"hidden_dim", {32}},
                               {"hidden_layers", {1}}}};
  config.data = {.kind = "synthetic", .seed = 3, .num_samples = 256};
  config.program.set_steps(1);
  config.program.set_global_batch(8);
  config.program.set_seed(seed);
  FillDefaults(config.program);
  return config;
}

class InitialParametersTest : public testing::Test {
 protected:
  InitialParametersTest() {
    const std::string name =
        testing::UnitTest::GetInstance()->current_test_info()->name();
    for (const uint64_t seed : {1, 2}) {
      const fs::path directory =
          fs::path(testing::TempDir()) / (name + std::to_string(seed));
      fs::remove_all(directory);
      ProgramConfig config = Job(seed);
      config.program.mutable_checkpoint()->set_directory(directory.string());
      const auto trained = RunRanks(config, /*world_size=*/1);
      EXPECT_TRUE(trained[0]->end.ok()) << trained[0]->end.status();
      models_.push_back((directory / "step-000000001").string());
    }
  }

  // A rank that has read the model of that index.
  std::unique_ptr<TrainingState> Reader(size_t model) const {
    ProgramConfig config = Job(/*seed=*/7);
    config.program.set_initial_parameters(models_[model]);
    return TrainingState::Create(config).value();
  }

  // The ranks that had others, by rank.
  static std::vector<std::vector<int>> ShareAmong(
      const std::vector<std::unique_ptr<TrainingState>>& states) {
    WorldOfThreads::Options options;
    options.world_size = static_cast<int>(states.size());
    const auto world = WorldOfThreads::Create(options).value();
    std::vector<std::vector<int>> others(states.size());
    const auto ends = world->RunAll([&](Communicator& communicator) {
      const auto rank = static_cast<size_t>(communicator.rank());
      const auto found = ShareInitialParameters(
          *states[rank], communicator, absl::Seconds(30), Clock::Real());
      if (found.ok()) others[rank] = *found;
      return found.status();
    });
    for (const absl::Status& end : ends) EXPECT_TRUE(end.ok()) << end;
    return others;
  }

  std::vector<std::string> models_;
};

TEST_F(InitialParametersTest, EqualOnesStayAsTheyAre) {
  std::vector<std::unique_ptr<TrainingState>> states;
  for (int rank = 0; rank < 3; ++rank) states.push_back(Reader(0));
  const uint64_t hash = states[0]->ParametersHash();
  for (const std::vector<int>& others : ShareAmong(states))
    EXPECT_THAT(others, IsEmpty());
  for (const auto& state : states) EXPECT_EQ(state->ParametersHash(), hash);
}

TEST_F(InitialParametersTest, RankZerosReplaceOthers) {
  std::vector<std::unique_ptr<TrainingState>> states;
  states.push_back(Reader(0));
  states.push_back(Reader(1));
  states.push_back(Reader(0));
  states.push_back(Reader(1));
  const uint64_t hash = states[0]->ParametersHash();
  const uint64_t other = states[1]->ParametersHash();
  ASSERT_NE(hash, other);
  for (const std::vector<int>& others : ShareAmong(states))
    EXPECT_THAT(others, ElementsAre(1, 3));
  for (const auto& state : states) EXPECT_EQ(state->ParametersHash(), hash);

  // A generation that ends before its first step leaves nothing behind.
  ASSERT_TRUE(states[1]->ResumeAt(0).ok());
  EXPECT_EQ(states[1]->ParametersHash(), other);
}

TEST_F(InitialParametersTest, NoMajorityOutvotesRankZero) {
  std::vector<std::unique_ptr<TrainingState>> states;
  states.push_back(Reader(1));
  states.push_back(Reader(0));
  states.push_back(Reader(0));
  const uint64_t hash = states[0]->ParametersHash();
  for (const std::vector<int>& others : ShareAmong(states))
    EXPECT_THAT(others, ElementsAre(1, 2));
  for (const auto& state : states) EXPECT_EQ(state->ParametersHash(), hash);
}

}  // namespace
}  // namespace ringmaster
