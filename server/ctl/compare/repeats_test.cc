#include "server/ctl/compare/repeats.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;

RunResult MadeRun(const char* mode, int turn, double step_seconds) {
  RunResult run;
  run.mode = *ParseMode(mode);
  run.workers = 2;
  run.turn = turn;
  run.step_seconds = step_seconds;
  run.final_loss = step_seconds;
  return run;
}

double StepOf(const RunResult& run) { return run.step_seconds; }

TEST(RepeatsTest, TheMedianOfTwoIsTheirMean) {
  EXPECT_EQ(MedianOf({}), 0);
  EXPECT_EQ(MedianOf({3}), 3);
  EXPECT_EQ(MedianOf({118, 26}), 72);
  EXPECT_EQ(MedianOf({9, 1, 2}), 2);
}

TEST(RepeatsTest, AFigureIsOfRunsAlikeThatSucceeded) {
  Comparison comparison;
  comparison.runs = {MadeRun("ring", 1, 3), MadeRun("ps:1", 1, 9),
                     MadeRun("ring", 2, 1), MadeRun("ring", 3, 99)};
  comparison.runs.back().failure = "killed";
  comparison.runs.push_back(MadeRun("ring", 3, 50));
  comparison.runs.back().variant = "16-bit wire";
  const Figure figure = FigureOf(comparison, comparison.runs[0], StepOf);
  EXPECT_EQ(figure.runs, 2);
  EXPECT_EQ(figure.median, 2);
  EXPECT_EQ(figure.least, 1);
  EXPECT_EQ(figure.most, 3);
  const Comparison medians = MediansOf(comparison);
  ASSERT_EQ(medians.runs.size(), 3u);
  EXPECT_EQ(medians.runs[0].step_seconds, 2);
  EXPECT_EQ(medians.runs[0].final_loss, 1) << "the run in the middle";
  EXPECT_EQ(medians.runs[1].step_seconds, 9);
  EXPECT_EQ(medians.runs[2].variant, "16-bit wire");
}

TEST(RepeatsTest, ACombinationThatAlwaysFailedKeepsItsFirstFailure) {
  Comparison comparison;
  comparison.runs = {MadeRun("ring", 1, 0), MadeRun("ring", 2, 0)};
  comparison.runs[0].failure = "first";
  comparison.runs[1].failure = "second";
  const Comparison medians = MediansOf(comparison);
  ASSERT_EQ(medians.runs.size(), 1u);
  EXPECT_EQ(medians.runs[0].failure, "first");
  EXPECT_EQ(FigureOf(comparison, comparison.runs[0], StepOf).runs, 0);
}

TEST(RepeatsTest, ApartIsBeyondTheSpreadOfBoth) {
  const Figure ten{.median = 10, .least = 9, .most = 11, .runs = 3};
  EXPECT_TRUE(
      AreApart(ten, {.median = 13, .least = 12, .most = 13.5, .runs = 3}));
  EXPECT_TRUE(
      AreApart({.median = 13, .least = 12, .most = 13.5, .runs = 3}, ten));
  EXPECT_FALSE(
      AreApart(ten, {.median = 13, .least = 10.5, .most = 13, .runs = 3}))
      << "ranges overlap";
  EXPECT_FALSE(
      AreApart(ten, {.median = 13, .least = 12, .most = 16, .runs = 3}))
      << "the median is no farther than the range is wide";
  EXPECT_FALSE(
      AreApart(ten, {.median = 99, .least = 99, .most = 99, .runs = 1}))
      << "a single run has no spread";
}

TEST(RepeatsTest, PassesAreTheWorkersAlone) {
  RunResult run = MadeRun("ps:1", 1, 1);
  run.ranks = {{.rank = 0, .steps = 5},
               {.rank = 1, .steps = 5},
               {.rank = 2, .is_server = true, .steps = 5}};
  run.ranks[0].forward_seconds = 1;
  run.ranks[1].backward_seconds = 2;
  run.ranks[2].forward_seconds = 100;
  EXPECT_EQ(PassSeconds(run), 1.5);
  EXPECT_EQ(PassSeconds(MadeRun("ring", 1, 1)), 0);
}

// Passes as long as a step, in three turns that are a hundredth apart.
void AddPasses(const char* mode, double seconds, Comparison& comparison) {
  for (int turn = 1; turn <= 3; ++turn) {
    RunResult run = MadeRun(mode, turn, 1);
    run.ranks = {{.rank = 0, .steps = 5}};
    run.ranks[0].backward_seconds = seconds * (1 + 0.01 * turn);
    comparison.runs.push_back(run);
  }
}

TEST(RepeatsTest, ABusyMachineGivesNoVerdict) {
  Comparison comparison;
  AddPasses("ring", 0.1, comparison);
  EXPECT_EQ(WhyNoVerdict(comparison, 2), "");
  AddPasses("gather_broadcast", 0.105, comparison);
  EXPECT_EQ(WhyNoVerdict(comparison, 2), "")
      << "too little to explain a difference";
  EXPECT_EQ(WhyNoVerdict(comparison, 4), "") << "nothing ran with 4";
  AddPasses("ps:1", 0.12, comparison);
  EXPECT_THAT(WhyNoVerdict(comparison, 2),
              HasSubstr("took 102 (101 to 103) ms with ring and 122 (121 to "
                        "124) ms with ps:1"));
  comparison.runs.resize(1);
  EXPECT_THAT(WhyNoVerdict(comparison, 2), HasSubstr("single runs"));
}

}  // namespace
}  // namespace ringmaster::ctl
