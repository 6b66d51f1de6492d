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
  for (const std::string kind : {"constant", "cosine", "linear", "wsd"}) {
    const ScheduleConfig schedule = {
        .kind = kind, .warmup_steps = 7, .decay_steps = kind == "wsd" ? 9 : 0};
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

TEST(LearningRateAtTest, LinearFollowsItsFormulaAfterTheWarmup) {
  const ScheduleConfig schedule = {
      .kind = "linear", .warmup_steps = 10, .final_ratio = 0.1};
  for (int64_t step = 11; step <= 1000; ++step) {
    const double left = static_cast<double>(1000 - step) / 990;
    EXPECT_NEAR(LearningRateAt(schedule, kBase, step, 1000),
                kBase * (0.1 + 0.9 * left), 1e-15 * kBase)
        << "step " << step;
  }
}

TEST(LearningRateAtTest, WsdStaysUntilItsLastStepsAndFallsThere) {
  const ScheduleConfig schedule = {.kind = "wsd",
                                   .warmup_steps = 10,
                                   .final_ratio = 0.1,
                                   .decay_steps = 200};
  for (int64_t step = 10; step <= 800; ++step)
    EXPECT_EQ(LearningRateAt(schedule, kBase, step, 1000), kBase) << step;
  for (int64_t step = 801; step <= 1000; ++step) {
    const double left = static_cast<double>(1000 - step) / 200;
    EXPECT_NEAR(LearningRateAt(schedule, kBase, step, 1000),
                kBase * (0.1 + 0.9 * left), 1e-15 * kBase)
        << "step " << step;
  }
}

// Jobs' rules refuse it, but a run of fewer steps than a decay is made of a job
// where only its pace is measured.
TEST(LearningRateAtTest, ADecayLongerThanTheRunBeginsAfterTheWarmup) {
  const ScheduleConfig schedule = {
      .kind = "wsd", .warmup_steps = 2, .decay_steps = 100};
  EXPECT_EQ(LearningRateAt(schedule, kBase, 2, 6), kBase);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 3, 6), kBase * 0.75);
  EXPECT_EQ(LearningRateAt(schedule, kBase, 6, 6), 0);
}

TEST(LearningRateAtTest, EachFallEndsAtTheFinalRatioAndStaysThere) {
  for (const std::string kind : {"cosine", "linear", "wsd"}) {
    const ScheduleConfig schedule = {
        .kind = kind, .final_ratio = 0.1, .decay_steps = kind == "wsd" ? 9 : 0};
    EXPECT_EQ(LearningRateAt(schedule, kBase, 100, 100), kBase * 0.1) << kind;
    EXPECT_EQ(LearningRateAt(schedule, kBase, 101, 100), kBase * 0.1) << kind;
    EXPECT_EQ(LearningRateAt({.kind = kind}, kBase, 1, 1), 0) << kind;
  }
}

TEST(LearningRateAtTest, AWarmupLongerThanTheRunIsCutShort) {
  const ScheduleConfig schedule = {.kind = "cosine", .warmup_steps = 200};
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 100, 100), kBase / 2);
}

TEST(ScheduleConfigTest, EveryBadFieldIsNamed) {
  EXPECT_TRUE(ScheduleConfig().Validate().ok());
  EXPECT_EQ(ScheduleConfig{.kind = "square"}.Validate().message(),
            "optimizer.schedule.kind is \"square\"; known are constant, "
            "cosine, linear and wsd");
  EXPECT_TRUE(
      (ScheduleConfig{.kind = "wsd", .decay_steps = 1}).Validate().ok());
  EXPECT_EQ(ScheduleConfig{.kind = "wsd"}.Validate().message(),
            "optimizer.schedule.decay_steps is 0, but must be at least 1 with "
            "wsd");
  EXPECT_EQ(
      (ScheduleConfig{.kind = "linear", .decay_steps = 5}).Validate().message(),
      "optimizer.schedule.decay_steps is 5, but must be 0 without wsd");
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
