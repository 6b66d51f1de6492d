#include "common/optimizer/optimizer_config.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(OptimizerConfigTest, DefaultsAreValid) {
  EXPECT_TRUE(OptimizerConfig().Validate().ok());
}

TEST(OptimizerConfigTest, EveryBadFieldIsNamed) {
  struct Case {
    const char* field;
    double OptimizerConfig::*member;
    double value;
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Case kCases[] = {
      {"learning_rate", &OptimizerConfig::learning_rate, 0},
      {"learning_rate", &OptimizerConfig::learning_rate, kNan},
      {"beta1", &OptimizerConfig::beta1, 1},
      {"beta1", &OptimizerConfig::beta1, -0.1},
      {"beta2", &OptimizerConfig::beta2, kNan},
      {"epsilon", &OptimizerConfig::epsilon, 0},
      {"momentum", &OptimizerConfig::momentum, 1},
      {"momentum", &OptimizerConfig::momentum, kNan},
      {"weight_decay", &OptimizerConfig::weight_decay, -1e-9},
      {"clip_norm", &OptimizerConfig::clip_norm, -1},
      {"layer_decay", &OptimizerConfig::layer_decay, 0},
      {"layer_decay", &OptimizerConfig::layer_decay, 1.1},
      {"clip_norm", &OptimizerConfig::clip_norm,
       std::numeric_limits<double>::infinity()},
  };
  for (const Case& bad : kCases) {
    OptimizerConfig config;
    config.*bad.member = bad.value;
    const absl::Status status = config.Validate();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.field;
    EXPECT_EQ(std::string(status.message())
                  .find(std::string("optimizer.") + bad.field + " is "),
              0u)
        << status;
  }
}

TEST(OptimizerConfigTest, UnknownKindIsRefusedWithTheKnownOnes) {
  OptimizerConfig config;
  config.kind = "lion";
  EXPECT_EQ(config.Validate().message(),
            "optimizer.kind is \"lion\"; known are adamw and sgd");
}

TEST(OptimizerConfigTest, NesterovNeedsAMomentum) {
  OptimizerConfig config = {.kind = "sgd", .nesterov = true};
  EXPECT_EQ(config.Validate().message(),
            "optimizer.nesterov is true, but needs a momentum above 0");
  config.momentum = 0.9;
  EXPECT_TRUE(config.Validate().ok());
}

TEST(OptimizerConfigTest, ABadScheduleIsRefused) {
  const OptimizerConfig config = {.schedule = {.warmup_steps = -1}};
  EXPECT_EQ(config.Validate(), config.schedule.Validate());
  EXPECT_FALSE(config.Validate().ok());
}

}  // namespace
}  // namespace ringmaster
