#include "server/ctl/compare/prediction.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

constexpr double kBytes = 1000;

// Computes 1 s, a half of it backward, and waits `exposed` thereafter.
RunResult MadeRun(const char* mode, int workers, double exposed) {
  RunResult run;
  run.mode = *ParseMode(mode);
  run.workers = workers;
  run.gradient_bytes = kBytes;
  run.ready_shares = {0.5, 1};
  run.compute_seconds = 1;
  run.backward_seconds = 0.5;
  run.transfer_seconds = exposed;
  run.step_seconds = 1 + exposed;
  return run;
}

Comparison OverAKnownLink(std::vector<RunResult> runs) {
  Comparison comparison;
  comparison.conditions.link_bytes_per_second = 1000;
  comparison.runs = std::move(runs);
  return comparison;
}

TEST(PredictionTest, TakesTheLinkFromItsLimitOrFromTheFewestWorkers) {
  Comparison comparison;
  EXPECT_FALSE(LinkOf(comparison).has_value());
  RunResult run = MadeRun("ring", 4, 1);
  run.all_reduce_seconds = 1;
  comparison.runs.push_back(run);
  run.workers = 2;
  run.wire_share = 0.5;
  run.all_reduce_seconds = 2;
  comparison.runs.push_back(run);
  EXPECT_DOUBLE_EQ(LinkOf(comparison)->cost.seconds_per_byte, 2.0 / 500);
  EXPECT_EQ(LinkOf(comparison)->source, &comparison.runs[1]);
  comparison.conditions.link_bytes_per_second = 100;
  EXPECT_DOUBLE_EQ(LinkOf(comparison)->cost.seconds_per_byte, 0.01);
  EXPECT_EQ(LinkOf(comparison)->source, nullptr);
}

TEST(PredictionTest, KnowsNoLinkOfGpus) {
  RunResult run = MadeRun("ring", 2, 1);
  run.all_reduce_seconds = 1;
  Comparison comparison;
  comparison.runs.push_back(run);
  EXPECT_TRUE(LinkOf(comparison).has_value());
  EXPECT_TRUE(TheoryOf(run).has_value());
  comparison.conditions.is_on_gpus = true;
  EXPECT_FALSE(LinkOf(comparison).has_value());
  run.is_by_nccl = true;
  EXPECT_FALSE(TheoryOf(run).has_value());
}

TEST(PredictionTest, TakesTheShapeOfAStepFromARun) {
  RunResult run;
  run.compute_seconds = 2;
  run.other_seconds = 1;
  run.backward_seconds = 1;
  run.micro_batches = 4;
  run.gradient_bytes = 1000;
  run.wire_share = 0.5;
  run.bucket_bytes = 300;
  StepShape shape = ShapeOf(run);
  EXPECT_DOUBLE_EQ(shape.compute_seconds, 3);
  EXPECT_DOUBLE_EQ(shape.backward_seconds, 0.25) << "of the last piece";
  EXPECT_DOUBLE_EQ(shape.wire_bytes, 500);
  EXPECT_EQ(shape.ready, EvenlyReady(4));
  EXPECT_EQ(shape.ranks_per_host, 1);
  run.ready_shares = {0.1, 1};
  EXPECT_EQ(ShapeOf(run).ready, run.ready_shares);
}

TEST(PredictionTest, ARingIsPredictedFromTheLinkAlone) {
  const Comparison comparison = OverAKnownLink({MadeRun("ring", 2, 0.9)});
  // A second through the link, of which a quarter is hidden.
  EXPECT_NEAR(*PredictedStepSeconds(comparison, comparison.runs[0]), 1 + 0.75,
              1e-3);
  EXPECT_FALSE(
      PredictedStepSeconds(Comparison(), comparison.runs[0]).has_value());
}

TEST(PredictionTest, TheRunThatTellsTheLinkIsNotPredictedByIt) {
  Comparison comparison;
  comparison.runs = {MadeRun("ring", 2, 0.9), MadeRun("ring", 4, 0.9)};
  for (RunResult& run : comparison.runs) run.all_reduce_seconds = 1;
  EXPECT_FALSE(
      PredictedStepSeconds(comparison, comparison.runs[0]).has_value());
  EXPECT_TRUE(PredictedStepSeconds(comparison, comparison.runs[1]).has_value());
  EXPECT_EQ(ErrorsOf(comparison).runs, 1);
  EXPECT_TRUE(ComputingShare(comparison, comparison.runs[0], 16, 1).has_value())
      << "which is a prediction of more nodes";
}

TEST(PredictionTest, ProcessesThatShareACoreAnswerLater) {
  Comparison comparison = OverAKnownLink({MadeRun("ring", 8, 0.9)});
  const double alone = *PredictedStepSeconds(comparison, comparison.runs[0]);
  comparison.conditions.cores = 2;
  EXPECT_NEAR(*PredictedStepSeconds(comparison, comparison.runs[0]) - alone,
              2 * 14 * 3 * kLatencySeconds, 1e-9);
  comparison.conditions.cores = 16;
  EXPECT_DOUBLE_EQ(*PredictedStepSeconds(comparison, comparison.runs[0]),
                   alone);
}

TEST(PredictionTest, AServerIsAProcessThatSharesACore) {
  Comparison comparison =
      OverAKnownLink({MadeRun("ps:2", 2, 3), MadeRun("ps:2", 6, 3)});
  const auto with_cores = [&](int cores) {
    comparison.conditions.cores = cores;
    return *PredictedStepSeconds(comparison, comparison.runs[1]);
  };
  EXPECT_DOUBLE_EQ(with_cores(8), with_cores(16));
  EXPECT_GT(with_cores(7), with_cores(8));
}

TEST(PredictionTest, ALengtheningBelowOneStaysWhatItIs) {
  const Mode mode = *ParseMode("ps:1");
  EXPECT_DOUBLE_EQ(GrownLengthening(mode, 0.9, 2, 8), 0.9);
  EXPECT_DOUBLE_EQ(GrownLengthening(mode, 0.9, 2, 4096), 0.9);
  EXPECT_DOUBLE_EQ(GrownLengthening(mode, 1, 2, 4096), 1);
}

TEST(PredictionTest, AServersTransfersAreLengthenedAsWithFewerWorkers) {
  // By the formula two push for 2 s, and the second bucket's answers take 1 s:
  // 3 s, of which 0.25 s are hidden. It took 3.75 s.
  const Comparison comparison = OverAKnownLink(
      {MadeRun("ps:1", 2, 3.5), MadeRun("ps:1", 4, 1), MadeRun("ps:2", 4, 1)});
  EXPECT_FALSE(PredictedStepSeconds(comparison, comparison.runs[0]).has_value())
      << "it would be predicted from itself";
  EXPECT_FALSE(PredictedStepSeconds(comparison, comparison.runs[2]).has_value())
      << "another mode";
  EXPECT_NEAR(*MeasuredLengthening(comparison.runs[0], {0, 1e-3}), 1.25, 1e-9);
  // 1 + 1/2 + 1/3 + 1/4 - 1 for 1/2.
  const double grown = 1 + 0.25 * (25.0 / 12 - 1) / 0.5;
  EXPECT_NEAR(GrownLengthening(comparison.runs[0].mode, 1.25, 2, 4), grown,
              1e-9);
  EXPECT_NEAR(*PredictedStepSeconds(comparison, comparison.runs[1]),
              1 + 6 * grown - 0.25, 1e-3);
  EXPECT_EQ(ErrorsOf(comparison).runs, 1);
}

TEST(PredictionTest, ARootsTransfersAreLengthenedByAsMuchWithMoreWorkers) {
  EXPECT_TRUE(IsLengthened(*ParseMode("gather_broadcast")));
  EXPECT_FALSE(IsLengthened(*ParseMode("ring")));
  EXPECT_DOUBLE_EQ(GrownLengthening(*ParseMode("gather_broadcast"), 1.7, 2, 8),
                   1.7);
}

TEST(PredictionTest, WhatHidesTellsNothing) {
  EXPECT_FALSE(
      MeasuredLengthening(MadeRun("ps:1", 2, 0.01), {0, 1e-3}).has_value());
  const Comparison comparison =
      OverAKnownLink({MadeRun("ps:1", 2, 0.01), MadeRun("ps:1", 4, 1)});
  EXPECT_FALSE(
      PredictedStepSeconds(comparison, comparison.runs[1]).has_value());
}

TEST(PredictionTest, ARunThatFailedOrDiffersIsNoMeasure) {
  Comparison comparison =
      OverAKnownLink({MadeRun("ps:1", 2, 3), MadeRun("ps:1", 4, 5)});
  comparison.runs[0].failure = "killed";
  EXPECT_FALSE(
      PredictedStepSeconds(comparison, comparison.runs[1]).has_value());
  comparison.runs[0].failure = "";
  comparison.runs[0].variant = "16-bit wire";
  EXPECT_FALSE(
      PredictedStepSeconds(comparison, comparison.runs[1]).has_value());
}

TEST(PredictionTest, CarriesAModeToMoreNodes) {
  const Comparison comparison =
      OverAKnownLink({MadeRun("ring", 2, 0.9), MadeRun("ps:1", 2, 3.5)});
  const auto share = [&](int run, int nodes) {
    return *ComputingShare(comparison, comparison.runs[run], nodes, 1);
  };
  // 2K(N-1)/N bytes, and four messages for each node.
  EXPECT_NEAR(share(0, 16), 1 / (1 + 1.875 + 2 * 30 * 20e-6 - 0.25), 1e-6);
  EXPECT_LT(share(1, 16), share(0, 16));
  EXPECT_GT(share(1, 16), share(1, 4096));
}

TEST(PredictionTest, TellsHowFarOffPredictionsWere) {
  EXPECT_EQ(ErrorsOf(Comparison()).runs, 0);
  Comparison comparison =
      OverAKnownLink({MadeRun("ring", 2, 0.75), MadeRun("ring", 2, 2.5)});
  const PredictionErrors errors = ErrorsOf(comparison);
  EXPECT_EQ(errors.runs, 2);
  EXPECT_NEAR(errors.largest, 0.5, 0.01);
}

}  // namespace
}  // namespace ringmaster::ctl
