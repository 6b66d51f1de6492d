#include "server/ctl/compare/report.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/ctl/compare/comparison_charts.h"
#include "server/ctl/compare/comparison_json.h"
#include "server/ctl/compare/findings.h"

namespace ringmaster::ctl {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr double kGradient = 4e6;

// Rank 0 moves `busiest`, the others a gradient.
RunResult MadeRun(const char* mode, int workers, double step_seconds,
                  double busiest) {
  RunResult run;
  run.mode = *ParseMode(mode);
  run.workers = workers;
  run.steps = 40;
  run.global_batch = 32;
  run.gradient_bytes = kGradient;
  run.bucket_bytes = 1 << 20;
  run.ranks_per_host = 1;
  run.step_seconds = step_seconds;
  run.compute_seconds = step_seconds / 2;
  run.transfer_seconds = step_seconds / 4;
  run.waiting_seconds = step_seconds / 4;
  run.samples_per_second = 32 / step_seconds;
  run.losses = {{0, 32, 2}, {1, 64, 1}};
  for (int rank = 0; rank < workers; ++rank) {
    RankResult result;
    result.rank = rank;
    result.steps = 36;
    result.sent_bytes = rank == 0 ? busiest : kGradient;
    result.peak_resident_bytes = rank == 0 ? 200e6 : 100e6;
    result.cpu_seconds = rank == 0 ? 0.005 : 0.001;
    run.ranks.push_back(result);
  }
  return run;
}

Comparison TwoModes() {
  Comparison comparison;
  comparison.conditions.job = "a<b.yaml";
  comparison.conditions.cores = 2;
  comparison.conditions.planned_runs = 4;
  comparison.conditions.link_bytes_per_second = 125e6;
  comparison.runs = {MadeRun("ring", 2, 0.010, kGradient),
                     MadeRun("gather_broadcast", 2, 0.012, kGradient),
                     MadeRun("ring", 4, 0.010, 1.5 * kGradient),
                     MadeRun("gather_broadcast", 4, 0.020, 3 * kGradient)};
  return comparison;
}

// Three turns, of which the others are this much faster and slower.
Comparison InTurns(Comparison comparison, double share = 0.01) {
  const std::vector<RunResult> once = std::move(comparison.runs);
  comparison.conditions.repeats = 3;
  comparison.runs.clear();
  for (const double factor : {1 + share, 1.0, 1 - share}) {
    for (RunResult run : once) {
      run.turn = static_cast<int>(comparison.runs.size() / once.size()) + 1;
      run.step_seconds *= factor;
      run.samples_per_second /= factor;
      comparison.runs.push_back(run);
    }
  }
  return comparison;
}

std::vector<std::string> NamesOf(const std::vector<NamedChart>& charts) {
  std::vector<std::string> names;
  for (const NamedChart& chart : charts) names.push_back(chart.name);
  return names;
}

TEST(ReportTest, StandsAloneAndStatesItsConditions) {
  Comparison comparison = TwoModes();
  comparison.conditions.machine = "host, 2 cores";
  comparison.conditions.link = "1gbit";
  const std::string html = ReportHtml(comparison);
  EXPECT_THAT(html, HasSubstr("a&lt;b.yaml"));
  EXPECT_THAT(html, HasSubstr("host, 2 cores"));
  EXPECT_THAT(html, HasSubstr("1gbit"));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("href=")));
  EXPECT_THAT(html, Not(HasSubstr("src=")));
  EXPECT_THAT(html, Not(HasSubstr(">nan")));
  EXPECT_THAT(html, HasSubstr("125.0 MB/s, the rate it was limited to"));
}

TEST(ReportTest, MarksWhatIsEmulatedCrowdedOrCutShort) {
  Comparison comparison = TwoModes();
  EXPECT_THAT(ReportHtml(comparison), HasSubstr("more workers than"));
  EXPECT_THAT(ReportHtml(comparison), Not(HasSubstr("Interrupted")));
  for (RunResult& run : comparison.runs) run.is_emulated = true;
  comparison.conditions.is_cut_short = true;
  comparison.conditions.planned_runs = 9;
  const std::string html = ReportHtml(comparison);
  EXPECT_THAT(html, HasSubstr("Interrupted: 4 of 9 runs"));
  EXPECT_THAT(html, Not(HasSubstr("memory was measured")));
  EXPECT_THAT(html, HasSubstr("Runs marked * do not compute"));
  EXPECT_THAT(html, HasSubstr("ring *"));
  EXPECT_THAT(html, Not(HasSubstr("more workers than")));
  EXPECT_THAT(NamesOf(ChartsOf(comparison)), Not(Contains("loss_time")));
}

TEST(ReportTest, AnInterruptWhileMemoryIsMeasuredLeavesAllRuns) {
  Comparison comparison = TwoModes();
  comparison.conditions.is_cut_short = true;
  comparison.conditions.planned_memories = 2;
  comparison.memories.resize(1);
  const std::string html = ReportHtml(comparison);
  EXPECT_THAT(html, HasSubstr("Interrupted: memory was measured of 1 of 2 "
                              "modes."));
  EXPECT_THAT(html, Not(HasSubstr("runs were made")));
}

TEST(ReportTest, ShowsAFailedRunAndGoesOnWithoutIt) {
  Comparison comparison = TwoModes();
  comparison.runs[3].failure = "worker-1 < was killed";
  const std::string html = ReportHtml(comparison);
  EXPECT_THAT(html, HasSubstr("failed: worker-1 &lt; was killed"));
  const auto json = nlohmann::json::parse(ComparisonJson(comparison));
  EXPECT_EQ(json["runs"][3]["failure"], "worker-1 < was killed");
  EXPECT_FALSE(json["runs"][3].contains("step_seconds"));
  for (RunResult& run : comparison.runs) run.failure = "no";
  EXPECT_THAT(ChartsOf(comparison), IsEmpty());
  EXPECT_THAT(ReportHtml(comparison), HasSubstr("failed: no"));
}

TEST(ReportTest, FindsWhatTheRunsShow) {
  Comparison comparison = TwoModes();
  RunResult narrow = MadeRun("ring", 4, 0.008, kGradient);
  narrow.variant = "16-bit wire";
  comparison.runs.push_back(narrow);
  const std::vector<std::string> findings = FindingsOf(InTurns(comparison));
  EXPECT_THAT(findings,
              Contains("With 4 workers the fastest is ring 10 ms (9.9 ms to "
                       "10.1 ms) a step; gather_broadcast takes 2.00 times as "
                       "long."));
  EXPECT_THAT(
      findings,
      Contains("gather_broadcast: the busiest node moves 1.00 times the "
               "gradients a step with 2 workers, 3.00 times with 4 "
               "(4.00 and 12.00 MB)."));
  EXPECT_THAT(findings,
              Contains(HasSubstr("An epoch with 4 workers takes 2.00 times as "
                                 "long by gather-broadcast")));
  EXPECT_THAT(findings,
              Contains("ring, 16-bit wire, samples a second against the job "
                       "as it is: 25 % more with 4 workers."));
  EXPECT_THAT(findings, Contains(HasSubstr("it moves 2.0 times the mean of all "
                                           "ranks' bytes and uses 2.5 times")));
  EXPECT_THAT(FindingsOf(Comparison()), IsEmpty());
}

TEST(ReportTest, OneSentenceForAVariationWithAllNumbersOfWorkers) {
  Comparison comparison = TwoModes();
  for (const int workers : {2, 4}) {
    RunResult run = MadeRun("ring", workers, 0.020, kGradient);
    run.variant = "no overlap";
    comparison.runs.push_back(run);
  }
  EXPECT_THAT(FindingsOf(InTurns(comparison)),
              Contains("ring, no overlap, samples a second against the job as "
                       "it is: 50 % less with 2 workers, 50 % less with 4."));
}

TEST(ReportTest, NoVerdictWithinTheSpreadOfRepeats) {
  // 10 ms and 12 ms with 2 workers, 10 and 20 with 4.
  Comparison comparison = TwoModes();
  RunResult narrow = MadeRun("ring", 4, 0.009, kGradient);
  narrow.variant = "16-bit wire";
  comparison.runs.push_back(narrow);
  const std::vector<std::string> findings =
      FindingsOf(InTurns(comparison, 0.15));
  EXPECT_THAT(findings,
              Contains("With 2 workers no mode is faster than another by more "
                       "than its runs differ: ring 10 ms (8.5 ms to 11.5 ms), "
                       "gather_broadcast 12 ms (10.2 ms to 13.8 ms) a step."));
  EXPECT_THAT(findings, Contains(HasSubstr("With 4 workers the fastest is")));
  EXPECT_THAT(findings, Contains(HasSubstr("no difference beyond that of "
                                           "repeats with 4 workers.")));
}

TEST(ReportTest, NoVerdictFromSingleRuns) {
  const std::vector<std::string> findings = FindingsOf(TwoModes());
  EXPECT_THAT(findings,
              Contains("With 4 workers there is no verdict: single runs do not "
                       "show how far a run is from the next (--repeats). A "
                       "step took: ring 10 ms, gather_broadcast 20 ms."));
  EXPECT_THAT(findings, Not(Contains(HasSubstr("An epoch with"))));
}

TEST(ReportTest, NoVerdictWhereComputingDiffers) {
  Comparison comparison = TwoModes();
  for (RunResult& run : comparison.runs) {
    for (RankResult& rank : run.ranks)
      rank.backward_seconds = run.workers == 2 ? 0.217 : 0.1;
  }
  for (RankResult& rank : comparison.runs[1].ranks)
    rank.backward_seconds = 0.629;
  const std::vector<std::string> findings = FindingsOf(InTurns(comparison));
  EXPECT_THAT(
      findings,
      Contains(HasSubstr("With 2 workers there is no verdict: forward and "
                         "backward, which are the same in all modes, took 217 "
                         "(217 to 217) ms with ring and 629 (629 to 629) ms "
                         "with gather_broadcast. The machine was busy")));
  EXPECT_THAT(findings, Contains(HasSubstr("With 4 workers the fastest is")));
}

TEST(ReportTest, ShowsTheSpreadOfRepeatsAndEachRunInTheJson) {
  Comparison comparison = InTurns(TwoModes());
  comparison.runs[0].failure = "killed";
  const std::string html = ReportHtml(comparison);
  EXPECT_THAT(html, HasSubstr("<td>20.00 (19.80 to 20.20)</td>"));
  EXPECT_THAT(html, HasSubstr("<td>ring, turn 1</td><td>2</td>"));
  EXPECT_THAT(html, HasSubstr("3 of each run, in turns"));
  const auto json = nlohmann::json::parse(ComparisonJson(comparison));
  EXPECT_EQ(json["runs"].size(), 12u);
  EXPECT_EQ(json["runs"][11]["turn"], 3);
  ASSERT_EQ(json["combinations"].size(), 4u);
  EXPECT_EQ(json["combinations"][0]["succeeded"], 2);
  const auto& step = json["combinations"][3]["step_seconds"];
  EXPECT_DOUBLE_EQ(step["least"], 0.0198);
  EXPECT_DOUBLE_EQ(step["median"], 0.02);
  EXPECT_DOUBLE_EQ(step["most"], 0.0202);
  EXPECT_EQ(json["findings"], nlohmann::json(FindingsOf(comparison)));
}

TEST(ReportTest, AnEfficiencyAboveAHundredPercentHasAWord) {
  Comparison comparison = TwoModes();
  EXPECT_THAT(ReportHtml(comparison), Not(HasSubstr("above 100 %")));
  comparison.runs[2].samples_per_second = 9000;
  EXPECT_THAT(ReportHtml(comparison),
              HasSubstr("An efficiency above 100 % (ring with 4 workers)"));
}

TEST(ReportTest, AServersMemoryIsNoWorkers) {
  RunResult run = MadeRun("ps:1", 2, 0.01, kGradient);
  run.ranks.push_back(run.ranks[1]);
  run.ranks.back().is_server = true;
  run.ranks.back().peak_resident_bytes = 900e6;
  EXPECT_DOUBLE_EQ(MemoryLoad(run).busiest, 200e6);
  EXPECT_DOUBLE_EQ(MemoryLoad(run).mean, 150e6);
}

TEST(ReportTest, TwoWorkersAreNotUnbalanced) {
  Comparison comparison = TwoModes();
  comparison.runs.resize(2);
  EXPECT_THAT(FindingsOf(comparison), Not(Contains(HasSubstr("unbalanced"))));
}

TEST(ReportTest, TellsHowStaleAnswersWere) {
  Comparison comparison = TwoModes();
  RunResult run = MadeRun("ps:1", 4, 0.020, kGradient);
  run.variant = "ssp";
  run.staleness = {6, 0, 2};
  comparison.runs.push_back(run);
  EXPECT_THAT(
      FindingsOf(comparison),
      Contains("ps:1, ssp, 4 workers: of the answers of servers, "
               "those to a worker that was 0 steps ahead of the slowest "
               "were 75 %, 2: 25 %."));
  const auto json = nlohmann::json::parse(ComparisonJson(comparison));
  EXPECT_EQ(json["runs"][4]["staleness"], nlohmann::json({6, 0, 2}));
}

TEST(ReportTest, TellsTheMostStaleFromThoseThatAreCountedTogether) {
  Comparison comparison = TwoModes();
  comparison.runs[0].staleness.resize(16);
  comparison.runs[0].staleness[0] = 3;
  comparison.runs[0].staleness[15] = 2;
  comparison.runs[1].staleness.resize(16);
  comparison.runs[1].staleness[15] = 2;
  EXPECT_THAT(FindingsOf(comparison),
              Contains(HasSubstr("0 steps ahead of the slowest were 60 %, "
                                 "15 and more: 40 %.")));
  EXPECT_THAT(FindingsOf(comparison),
              Contains(HasSubstr("a worker that was 15 and more steps ahead of "
                                 "the slowest were 100 %.")));
}

// Workers of a gather_broadcast that all need as much.
MemoryResult EvenMemory(double peak, double per_sample, double fixed) {
  MemoryResult memory;
  memory.mode = *ParseMode("gather_broadcast");
  memory.workers = 4;
  memory.few_samples = 10;
  memory.more_samples = 40;
  for (int rank = 0; rank < 4; ++rank) {
    memory.ranks.push_back({.peak_bytes = peak,
                            .bytes_per_sample = per_sample,
                            .fixed_bytes = fixed});
  }
  return memory;
}

TEST(ReportTest, DerivesTheLargestBatchAndMarksIt) {
  Comparison comparison = TwoModes();
  comparison.conditions.device_memory_bytes = 300e6;
  const MemoryResult memory = EvenMemory(110e6, 1e6, 100e6);
  comparison.memories = {memory, memory};
  comparison.memories[1].mode = *ParseMode("ps:1");
  comparison.memories[1].failure = "killed";
  const std::string html = ReportHtml(comparison);
  EXPECT_THAT(html, HasSubstr("Memory, and the largest batch"));
  EXPECT_THAT(html, HasSubstr("<b>derived</b>"));
  EXPECT_THAT(html,
              HasSubstr("<td>1000.0 to 1000.0</td><td>-</td><td>200</td>"));
  EXPECT_THAT(html, HasSubstr("failed: killed"));
  EXPECT_THAT(
      FindingsOf(comparison),
      Contains(HasSubstr("needs 1.00 times the mean memory of the "
                         "workers: it adds gradients to its own as they "
                         "come. Derived: one that first collected all of "
                         "them would need 12.0 MB more, 1.08 times the "
                         "mean, and fit 188 samples in place of 200.")));
  const auto json = nlohmann::json::parse(ComparisonJson(comparison));
  EXPECT_EQ(json["memory"][0]["derived_largest_samples_per_worker"], 200);
  EXPECT_EQ(json["memory"][1]["failure"], "killed");
}

TEST(ReportTest, TheRootIsRankZeroAndNotTheWorkerThatNeedsMost) {
  Comparison comparison = TwoModes();
  comparison.conditions.device_memory_bytes = 300e6;
  comparison.memories = {EvenMemory(100e6, 1e6, 90e6)};
  comparison.memories[0].ranks[2].peak_bytes = 200e6;
  EXPECT_THAT(
      FindingsOf(comparison),
      Contains(HasSubstr("The root of gather_broadcast needs 0.80 times "
                         "the mean memory of the workers")));
}

TEST(ReportTest, TellsMemoryThatDidNotGrowFromWhatDoesNotFit) {
  Comparison comparison = TwoModes();
  comparison.conditions.device_memory_bytes = 300e6;
  comparison.memories = {EvenMemory(110e6, 0, 110e6),
                         EvenMemory(410e6, 1e6, 400e6)};
  const std::string html = ReportHtml(comparison);
  EXPECT_THAT(html, HasSubstr("<td>110.0 to 110.0</td><td>-</td><td>-</td>"
                              "<td>-</td><td>memory did not grow</td>"));
  EXPECT_THAT(html, HasSubstr("<td>1000.0 to 1000.0</td><td>-</td>"
                              "<td>does not fit</td>"));
  EXPECT_THAT(FindingsOf(comparison), Not(Contains(HasSubstr("in place of"))));
  const auto json = nlohmann::json::parse(ComparisonJson(comparison));
  const char* key = "derived_largest_samples_per_worker";
  EXPECT_TRUE(json["memory"][0][key].is_null());
  EXPECT_EQ(json["memory"][1][key], 0);
}

TEST(ReportTest, SaysWhereHierarchicalHasNoSecondLevel) {
  Comparison comparison = TwoModes();
  EXPECT_THAT(ReportHtml(comparison), Not(HasSubstr("no second level")));
  comparison.runs.push_back(MadeRun("hierarchical", 4, 0.01, kGradient));
  EXPECT_THAT(ReportHtml(comparison), HasSubstr("no second level"));
  comparison.runs.back().ranks_per_host = 2;
  EXPECT_THAT(ReportHtml(comparison), Not(HasSubstr("no second level")));
}

TEST(ReportTest, ShowsHowFarOffAPredictionWas) {
  Comparison comparison = TwoModes();
  // 4 MB, or 6, over 125 MB/s, of which nothing is known to hide.
  EXPECT_THAT(FindingsOf(comparison),
              Contains(HasSubstr("Predictions of the step were ")));
  comparison.runs.resize(1);
  EXPECT_THAT(FindingsOf(comparison),
              Contains(HasSubstr("The prediction of one run's step was ")));
  comparison.conditions.link_bytes_per_second = 0;
  EXPECT_THAT(FindingsOf(comparison), Not(Contains(HasSubstr("rediction"))));
  EXPECT_THAT(ReportHtml(comparison), Not(HasSubstr("Of a link")));
  comparison.runs[0].all_reduce_seconds = 0.04;
  EXPECT_THAT(FindingsOf(comparison), Not(Contains(HasSubstr("rediction"))))
      << "the run by which the link is known";
  EXPECT_THAT(ReportHtml(comparison),
              HasSubstr("100.0 MB/s, what the all-reduces of ring with 2 "
                        "workers reached"));
}

TEST(ReportTest, ScalesFromTheBestRunOfTheFewestWorkers) {
  const Comparison comparison = TwoModes();
  EXPECT_DOUBLE_EQ(EfficiencyOf(comparison, comparison.runs[0]), 1);
  EXPECT_DOUBLE_EQ(EfficiencyOf(comparison, comparison.runs[2]), 0.5);
  EXPECT_DOUBLE_EQ(EfficiencyOf(Comparison(), comparison.runs[0]), 0);
}

TEST(ReportTest, DrawsWhatThereAreFiguresFor) {
  Comparison comparison = TwoModes();
  EXPECT_THAT(NamesOf(ChartsOf(comparison)),
              ::testing::ElementsAre("step_time", "throughput", "efficiency",
                                     "bytes", "memory", "cpu", "loss_time",
                                     "loss_samples", "prediction", "scale"));
  // Shared memory's rate predicts the runs here, and no nodes of a network.
  comparison.conditions.link_bytes_per_second = 0;
  comparison.runs[0].all_reduce_seconds = 0.04;
  EXPECT_THAT(NamesOf(ChartsOf(comparison)), Contains("prediction"));
  EXPECT_THAT(NamesOf(ChartsOf(comparison)), Not(Contains("scale")));
  comparison.conditions.is_on_cluster = true;
  EXPECT_THAT(NamesOf(ChartsOf(comparison)), Contains("scale"));
  comparison.runs[0].all_reduce_seconds = 0;
  comparison.runs.resize(2);
  EXPECT_THAT(NamesOf(ChartsOf(comparison)),
              ::testing::ElementsAre("step_time", "bytes", "memory", "cpu",
                                     "loss_time", "loss_samples"));
}

// NCCL reports no bytes, and no formula covers its algorithms.
TEST(ReportTest, OnGpusShowsNeitherBytesOfNcclNorPredictions) {
  Comparison comparison;
  comparison.conditions.device = "a GPU each: NVIDIA H200";
  comparison.conditions.is_on_gpus = true;
  comparison.conditions.cores = 1;
  comparison.runs = {MadeRun("auto", 2, 0.010, 7 * kGradient),
                     MadeRun("ring", 2, 0.011, 7 * kGradient),
                     MadeRun("ps:1", 2, 0.012, kGradient),
                     MadeRun("ring", 4, 0.010, 9 * kGradient)};
  for (RunResult& run : comparison.runs) {
    run.is_by_nccl = !run.mode.is_parameter_server();
    run.all_reduce_seconds = 1;
  }
  const std::string html = ReportHtml(comparison);
  EXPECT_THAT(html,
              HasSubstr("<td>Workers compute on</td><td class=\"w\">a GPU "
                        "each: NVIDIA H200</td>"));
  EXPECT_THAT(html, HasSubstr("No step is predicted"));
  EXPECT_THAT(html, Not(HasSubstr("Predicted steps")));
  EXPECT_THAT(html, Not(HasSubstr("28.00")));
  EXPECT_THAT(html, Not(HasSubstr("36.00")));
  EXPECT_THAT(html, Not(HasSubstr("more workers than")));
  for (const std::string& finding : FindingsOf(comparison))
    EXPECT_THAT(finding, Not(HasSubstr("busiest node")));
  const auto names = NamesOf(ChartsOf(comparison));
  EXPECT_THAT(names, Contains("bytes"));  // of the servers
  EXPECT_THAT(names, Not(Contains("prediction")));
  EXPECT_THAT(names, Not(Contains("scale")));
  const auto json = nlohmann::json::parse(ComparisonJson(comparison));
  EXPECT_EQ(json["conditions"]["is_on_gpus"], true);
  const auto& ring = json["runs"][1];
  EXPECT_EQ(ring["is_by_nccl"], true);
  EXPECT_TRUE(ring["ranks"][0]["sent_bytes"].is_null());
  const auto& combinations = json["combinations"];
  EXPECT_TRUE(combinations[1]["theory"]["busiest_sent_bytes"].is_null());
  const auto& servers = json["runs"][2];
  EXPECT_EQ(servers["ranks"][0]["sent_bytes"], kGradient);
  EXPECT_EQ(combinations[2]["theory"]["busiest_sent_bytes"], 2 * kGradient);
  EXPECT_TRUE(combinations[2]["theory"]["step_seconds"].is_null());
  // Without servers there is nothing to draw.
  comparison.runs.resize(2);
  EXPECT_THAT(NamesOf(ChartsOf(comparison)), Not(Contains("bytes")));
}

TEST(ReportTest, JsonHasMeasuredAndTheory) {
  const auto json = nlohmann::json::parse(ComparisonJson(TwoModes()));
  EXPECT_EQ(json["conditions"]["cores"], 2);
  ASSERT_EQ(json["runs"].size(), 4u);
  const auto& run = json["runs"][3];
  const auto& theory = json["combinations"][3]["theory"];
  EXPECT_EQ(run["mode"], "gather_broadcast");
  EXPECT_DOUBLE_EQ(theory["busiest_sent_bytes"], 3 * kGradient);
  EXPECT_DOUBLE_EQ(run["ranks"][0]["sent_bytes"], 3 * kGradient);
  EXPECT_GT(theory["step_seconds"], 0);
  EXPECT_EQ(run["losses"].size(), 2u);
}

}  // namespace
}  // namespace ringmaster::ctl
