#include "common/optimizer/schedule.h"

#include <cmath>
#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

constexpr double kBase = 6e-4;
constexpr double kPi = 3.14159265358979323846;

TEST(LearningRateAtTest, ConstantIsTheBaseAtEveryStep) {
  for (int64_t step : {1, 2, 100, 101})
    EXPECT_EQ(LearningRateAt({}, kBase, step, 100), kBase);
}

TEST(LearningRateAtTest, WarmsUpInEqualStepsFromTheFirst) {
  for (const char* kind : {"constant", "cosine"}) {
    const ScheduleConfig schedule = {.kind = kind, .warmup_steps = 7};
    for (int64_t step = 1; step < 7; ++step) {
      EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, step, 100),
                       kBase * static_cast<double>(step) / 7);
    }
    EXPECT_EQ(LearningRateAt(schedule, kBase, 7, 100), kBase);
  }
}

TEST(LearningRateAtTest, CosineFollowsItsFormulaAfterTheWarmup) {
  const ScheduleConfig schedule = {
      .kind = "cosine", .warmup_steps = 10, .final_ratio = 0.1};
  for (int64_t step = 11; step <= 1000; ++step) {
    const double progress = static_cast<double>(step - 10) / 990;
    EXPECT_NEAR(LearningRateAt(schedule, kBase, step, 1000),
                kBase * (0.1 + 0.9 * (1 + std::cos(kPi * progress)) / 2),
                1e-15 * kBase)
        << "step " << step;
  }
}

TEST(LearningRateAtTest, CosineEndsAtTheFinalRatioAndStaysThere) {
  const ScheduleConfig schedule = {.kind = "cosine", .final_ratio = 0.1};
  EXPECT_EQ(LearningRateAt(schedule, kBase, 100, 100), kBase * 0.1);
  EXPECT_EQ(LearningRateAt(schedule, kBase, 101, 100), kBase * 0.1);
  EXPECT_EQ(LearningRateAt({.kind = "cosine"}, kBase, 1, 1), 0);
}

TEST(LearningRateAtTest, AWarmupLongerThanTheRunIsCutShort) {
  const ScheduleConfig schedule = {.kind = "cosine", .warmup_steps = 200};
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 100, 100), kBase / 2);
}

TEST(ScheduleConfigTest, EveryBadFieldIsNamed) {
  EXPECT_TRUE(ScheduleConfig().Validate().ok());
  EXPECT_EQ(ScheduleConfig{.kind = "linear"}.Validate().message(),
            "optimizer.schedule.kind is \"linear\"; known are constant and "
            "cosine");
  EXPECT_EQ(ScheduleConfig{.warmup_steps = -1}.Validate().message(),
            "optimizer.schedule.warmup_steps is -1, but must be at least 0");
  for (double bad : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(
        std::string(ScheduleConfig{.final_ratio = bad}.Validate().message())
            .find("optimizer.schedule.final_ratio is "),
        0u);
  }
}

}  // namespace
}  // namespace ringmaster
