// A generation with parameter servers as threads of one process: the result is
// that of an all-reduce.
#include "worker/train/exchange/server_sync.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "worker/train/state/program_config.h"
#include "worker/train/testing/server_ranks.h"
#include "worker/train/testing/trainer_workers.h"

namespace ringmaster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

enum class Optimizer { kAdamw, kSgd, kMomentum };

v1::TrainProgram ProgramOf(Optimizer optimizer, int64_t steps) {
  v1::TrainProgram program = SmallProgram(steps);
  program.set_global_batch(
      37);  // a prime, so that no number of workers divides it
  program.mutable_optimizer()->set_layer_decay(0.5);
  if (optimizer != Optimizer::kAdamw) {
    v1::SgdSpec* sgd = program.mutable_optimizer()->mutable_sgd();
    sgd->set_learning_rate(0.05);
    sgd->set_momentum(optimizer == Optimizer::kMomentum ? 0.9 : 0);
  }
  return program;
}

v1::TrainProgram WithServers(v1::TrainProgram program, int servers) {
  program.mutable_parameter_server()->set_servers(servers);
  return program;
}

std::vector<float> Parameters(const RankResult& result) {
  const absl::Span<float> elems = result.state->parameters().Elems<float>();
  return {elems.begin(), elems.end()};
}

// The distance of both, in lengths of the second.
double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double length = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    length += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(difference / length);
}

std::vector<float> AllReduced(const v1::TrainProgram& program, int workers) {
  const auto results = RunRanks(ParseProgram(program).value(), workers);
  EXPECT_TRUE(results[0]->end.ok()) << results[0]->end.status();
  return Parameters(*results[0]);
}

void ExpectAllFinishedAlike(
    const std::vector<std::unique_ptr<RankResult>>& results, int64_t steps) {
  for (const auto& result : results) {
    ASSERT_TRUE(result->end.ok()) << result->end.status();
    EXPECT_EQ(*result->end, GenerationRun::End::kFinished);
    EXPECT_EQ(result->state->applied_step(), steps);
    EXPECT_EQ(result->state->ParametersHash(),
              results[0]->state->ParametersHash());
  }
}

class BspTest : public testing::TestWithParam<std::tuple<int, int, Optimizer>> {
};

TEST_P(BspTest, EndsWhereAnAllReduceEnds) {
  const auto [workers, servers, optimizer] = GetParam();
  const v1::TrainProgram program = ProgramOf(optimizer, /*steps=*/20);
  const auto results = RunServerRanks(WithServers(program, servers),
                                      {.workers = workers, .servers = servers});
  ExpectAllFinishedAlike(results, 20);
  EXPECT_LT(Distance(Parameters(*results[0]), AllReduced(program, workers)),
            1e-5);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, BspTest,
    testing::Combine(testing::Values(1, 2, 3, 4), testing::Values(1, 2, 3),
                     testing::Values(Optimizer::kAdamw, Optimizer::kSgd,
                                     Optimizer::kMomentum)));

TEST(ServerSyncTest, ReplicasChangeNothing) {
  const v1::TrainProgram program = ProgramOf(Optimizer::kAdamw, /*steps=*/10);
  const auto results = RunServerRanks(
      WithServers(program, 2), {.workers = 2, .servers = 2, .replicas = 1});
  ExpectAllFinishedAlike(results, 10);
  EXPECT_LT(Distance(Parameters(*results[0]), AllReduced(program, 2)), 1e-5);
}

TEST(ServerSyncTest, LanesChangeNothing) {
  v1::TrainProgram program = ProgramOf(Optimizer::kAdamw, /*steps=*/10);
  // Each bucket is updated alike, whoever holds it; only the order of pushes
  // differs.
  program.mutable_parameter_server()->set_deterministic(true);
  const ServerRanksOptions options = {
      .workers = 2, .servers = 2, .replicas = 1};
  const auto one = RunServerRanks(WithServers(program, 2), options);
  program.mutable_collective()->set_connections(2);
  const auto two = RunServerRanks(WithServers(program, 2), options);
  ExpectAllFinishedAlike(one, 10);
  ExpectAllFinishedAlike(two, 10);
  EXPECT_EQ(Parameters(*one[0]), Parameters(*two[0]));
}

TEST(ServerSyncTest, ClipsByTheNormOfAllShards) {
  v1::TrainProgram program = ProgramOf(Optimizer::kSgd, /*steps=*/20);
  const std::vector<float> free = AllReduced(program, 2);
  program.mutable_optimizer()->mutable_sgd()->set_clip_norm(0.05);
  const std::vector<float> clipped = AllReduced(program, 2);
  ASSERT_GT(Distance(free, clipped), 1e-3);
  const auto results =
      RunServerRanks(WithServers(program, 3), {.workers = 2, .servers = 3});
  ExpectAllFinishedAlike(results, 20);
  EXPECT_LT(Distance(Parameters(*results[0]), clipped), 1e-5);
}

TEST(ServerSyncTest, GradientsOfSixteenBitsEndCloseToThoseOfThirtyTwo) {
  v1::TrainProgram program = ProgramOf(Optimizer::kAdamw, /*steps=*/40);
  const auto whole =
      RunServerRanks(WithServers(program, 2), {.workers = 2, .servers = 2});
  program.mutable_collective()->set_wire(v1::COLLECTIVE_WIRE_BFLOAT16);
  const auto rounded =
      RunServerRanks(WithServers(program, 2), {.workers = 2, .servers = 2});
  ExpectAllFinishedAlike(rounded, 40);
  EXPECT_NEAR(rounded[0]->evaluation_loss, whole[0]->evaluation_loss,
              0.02 * whole[0]->evaluation_loss);
  EXPECT_NE(rounded[0]->state->ParametersHash(),
            whole[0]->state->ParametersHash());
}

TEST(ServerSyncTest, TheOrderOfRanksGivesTheSameBitsAgain) {
  v1::TrainProgram program =
      WithServers(ProgramOf(Optimizer::kAdamw, /*steps=*/10), 2);
  program.mutable_parameter_server()->set_deterministic(true);
  const auto first = RunServerRanks(program, {.workers = 4, .servers = 2});
  const auto second = RunServerRanks(program, {.workers = 4, .servers = 2});
  ExpectAllFinishedAlike(first, 10);
  ExpectAllFinishedAlike(second, 10);
  EXPECT_EQ(first[0]->state->ParametersHash(),
            second[0]->state->ParametersHash());
}

// One bucket that is not finite is left out, and all workers know whose.
TEST(ServerSyncTest, GradientsThatAreNotFiniteEndAJobThatAsksForIt) {
  v1::TrainProgram program =
      WithServers(ProgramOf(Optimizer::kSgd, /*steps=*/50), 2);
  program.mutable_optimizer()->mutable_sgd()->set_learning_rate(1e30);
  program.mutable_non_finite()->set_max_in_a_row(3);
  const auto results = RunServerRanks(program, {.workers = 2, .servers = 2});
  for (const auto& result : results) {
    EXPECT_EQ(result->end.status().code(), absl::StatusCode::kInvalidArgument)
        << result->end.status();
    EXPECT_THAT(std::string(result->end.status().message()),
                AllOf(HasSubstr("the gradient was not finite for 3 steps"),
                      HasSubstr("it came from")));
    EXPECT_EQ(result->state->applied_step(), results[0]->state->applied_step());
  }
}

class RelaxedTest : public testing::TestWithParam<v1::Consistency> {};

TEST_P(RelaxedTest, LearnsAndEndsAlike) {
  const v1::TrainProgram program = ProgramOf(Optimizer::kSgd, /*steps=*/120);
  const auto none =
      RunServerRanks(WithServers(ProgramOf(Optimizer::kSgd, 1), 1), {});
  const auto together =
      RunServerRanks(WithServers(program, 2), {.workers = 3, .servers = 2});
  v1::TrainProgram relaxed = WithServers(program, 2);
  relaxed.mutable_parameter_server()->set_consistency(GetParam());
  relaxed.mutable_parameter_server()->set_staleness(2);
  relaxed.set_hash_every(40);
  const auto results = RunServerRanks(relaxed, {.workers = 3, .servers = 2});
  ExpectAllFinishedAlike(results, 120);
  const double gain = none[0]->evaluation_loss - together[0]->evaluation_loss;
  ASSERT_GT(gain, 0);
  EXPECT_LT(results[0]->evaluation_loss, none[0]->evaluation_loss - 0.8 * gain);
}

INSTANTIATE_TEST_SUITE_P(Consistencies, RelaxedTest,
                         testing::Values(v1::CONSISTENCY_SSP,
                                         v1::CONSISTENCY_ASYNC));

TEST(AgreementStepTest, ComesBeforeWhateverNeedsOneState) {
  ProgramConfig config;
  config.program.set_steps(130);
  config.program.set_evaluate_every(30);
  config.program.set_hash_every(0);
  config.program.mutable_checkpoint()->set_every_steps(40);  // of none
  std::vector<int64_t> steps;
  for (int64_t step = 1; step <= config.program.steps(); ++step) {
    if (IsAgreementStep(config, step)) steps.push_back(step);
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{30, 50, 60, 90, 100, 120, 130}));
  EXPECT_FALSE(IsAgreementStep(config, 40));
  config.program.mutable_checkpoint()->set_directory("/somewhere");
  EXPECT_TRUE(IsAgreementStep(config, 40));
  EXPECT_FALSE(IsAgreementStep(config, 7));
  config.program.set_hash_every(7);
  EXPECT_TRUE(IsAgreementStep(config, 7));
}

}  // namespace
}  // namespace ringmaster
