#include "common/parameter_server/update_rules.h"

#include <string>

#include "common/optimizer/optimizer_config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

v1::TrainProgram ProgramOf(v1::Consistency consistency, int staleness = 0) {
  v1::TrainProgram program;
  program.mutable_parameter_server()->set_consistency(consistency);
  program.mutable_parameter_server()->set_staleness(staleness);
  return program;
}

absl::StatusOr<UpdateRules> RulesOf(const v1::TrainProgram& program) {
  return ParseUpdateRules(program, OptimizerConfig());
}

TEST(UpdateRules, AreThoseOfTheConsistency) {
  EXPECT_EQ(*RulesOf(ProgramOf(v1::CONSISTENCY_UNSPECIFIED)), UpdateRules());
  v1::TrainProgram deterministic = ProgramOf(v1::CONSISTENCY_BSP);
  deterministic.mutable_parameter_server()->set_deterministic(true);
  EXPECT_EQ(*RulesOf(deterministic), (UpdateRules{.is_deterministic = true}));
  EXPECT_EQ(*RulesOf(ProgramOf(v1::CONSISTENCY_SSP, 3)),
            (UpdateRules{.is_synchronous = false, .staleness = 3}));
  EXPECT_EQ(*RulesOf(ProgramOf(v1::CONSISTENCY_ASYNC)),
            (UpdateRules{.is_synchronous = false}));
}

TEST(UpdateRules, ThereIsALaneForEachConnection) {
  v1::TrainProgram program;
  EXPECT_EQ(LanesOf(program), 1);
  program.mutable_collective()->set_connections(3);
  EXPECT_EQ(LanesOf(program), 3);
}

TEST(UpdateRules, RefuseWhatDoesNotGoTogether) {
  OptimizerConfig clipped;
  clipped.clip_norm = 1;
  const auto bsp = ParseUpdateRules(ProgramOf(v1::CONSISTENCY_BSP), clipped);
  ASSERT_TRUE(bsp.ok()) << bsp.status();
  EXPECT_TRUE(bsp->clips);
  EXPECT_THAT(
      std::string(ParseUpdateRules(ProgramOf(v1::CONSISTENCY_ASYNC), clipped)
                      .status()
                      .message()),
      HasSubstr("train.optimizer.clip_norm"));
}

}  // namespace
}  // namespace ringmaster
