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

std::string TextOf(const v1::TrainProgram& program) {
  const auto rules = ParseUpdateRules(program, OptimizerConfig());
  return rules.ok() ? rules->CanonicalText()
                    : std::string(rules.status().message());
}

TEST(UpdateRules, AreThoseOfTheConsistency) {
  EXPECT_EQ(TextOf(ProgramOf(v1::CONSISTENCY_UNSPECIFIED)),
            "bsp staleness=0 deterministic=0");
  v1::TrainProgram deterministic = ProgramOf(v1::CONSISTENCY_BSP);
  deterministic.mutable_parameter_server()->set_deterministic(true);
  EXPECT_EQ(TextOf(deterministic), "bsp staleness=0 deterministic=1");
  EXPECT_EQ(TextOf(ProgramOf(v1::CONSISTENCY_SSP, 3)),
            "ssp staleness=3 deterministic=0");
  EXPECT_EQ(TextOf(ProgramOf(v1::CONSISTENCY_ASYNC)),
            "async staleness=0 deterministic=0");
}

TEST(UpdateRules, ThereIsALaneForEachConnection) {
  v1::TrainProgram program;
  EXPECT_EQ(LanesOf(program), 1);
  program.mutable_collective()->set_connections(3);
  EXPECT_EQ(LanesOf(program), 3);
}

TEST(UpdateRules, RefuseWhatIsNotKnownOrDoesNotGoTogether) {
  EXPECT_THAT(TextOf(ProgramOf(static_cast<v1::Consistency>(9))),
              HasSubstr("train.parameter_server.consistency is 9"));
  EXPECT_THAT(TextOf(ProgramOf(v1::CONSISTENCY_SSP)),
              HasSubstr("staleness must be at least 1, got 0"));
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
