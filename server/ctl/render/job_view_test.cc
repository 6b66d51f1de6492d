#include "server/ctl/render/job_view.h"

#include <string>
#include <string_view>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/job.pb.h"
#include "server/ctl/render/names.h"
#include "server/ctl/render/verdict_view.h"

namespace ringmaster::ctl {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

v1::Job JobOf(std::string_view text) {
  v1::Job job;
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString(std::string(text), &job));
  return job;
}

v1::Job RunningJob() {
  return JobOf(R"pb(
    id: "mlp-1"
    state: JOB_STATE_RUNNING
    generation: 3
    members { rank: 0 worker: "w-0" host: "alpha" pid: 101 step: 120 }
    members { rank: 1 worker: "w-1" host: "beta" pid: 20202 step: 119 }
    figures {
      step: 120
      total_steps: 500
      loss: 2.31
      samples_per_second: 81234
      step_duration { nanos: 3100000 }
      communication_wait_ratio: 0.12
      data_wait_ratio: 0.01
      evaluation_loss: 2.4
      evaluation_step: 100
      remaining_duration { seconds: 2 }
    }
  )pb");
}

TEST(LiveTableTest, TellsParameterServersFromRanks) {
  v1::Job job = RunningJob();
  job.mutable_members(1)->set_role(v1::ROLE_PARAMETER_SERVER);
  const std::string text = absl::StrJoin(LiveTable(job, {}, {}), "\n");
  EXPECT_NE(text.find("generation 3  1 rank, 1 server\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("\n   1  w-1 (server)  beta "), std::string::npos)
      << text;
}

TEST(LiveTableTest, TellsOfCheckpointsThatFail) {
  v1::Job job = RunningJob();
  EXPECT_EQ(CheckpointErrorLine(job, {}), "");
  for (v1::Member& member : *job.mutable_members())
    member.set_checkpoint_error("after step 60: disk full\033[2J");
  EXPECT_EQ(CheckpointErrorLine(job, {}),
            "checkpoints fail: rank 0 (w-0 on alpha) after step 60: disk "
            "full?[2J; and on 1 more");
  EXPECT_THAT(absl::StrJoin(LiveTable(job, {}, {.width = 200}), "\n"),
              testing::HasSubstr("\ncheckpoints fail: rank 0"));
}

TEST(LiveTableTest, ShowsProgressFiguresAndRanks) {
  v1::Job job = RunningJob();
  job.mutable_members(0)->set_phase(v1::PHASE_STEP);
  EXPECT_EQ("\n" + absl::StrJoin(LiveTable(job, {}, {}), "\n"),
            R"(
mlp-1  RUNNING  generation 3  2 ranks
[#######-----------------------]  step 120/500  24%  eta 2.0s
loss 2.310
evaluation loss 2.400 at step 100
81234 samples/s  step 3.1ms
exposed communication 12%, data 1%
RANK  WORKER  HOST     PID  STEP  AGE  PHASE
   0  w-0     alpha    101   120    -  STEP
   1  w-1     beta   20202   119    -  -)");
}

v1::Job LanguageJob() {
  v1::Job job = RunningJob();
  job.mutable_spec()->mutable_train()->mutable_model()->mutable_gpt();
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(
      R"pb(
        figures {
          gradient_norm: 1.25
          targets_per_second: 912345
          model_flops_utilization: 0.41
          learning_rate: 0.0003
          phases {
            data_wait { nanos: 12000 }
            forward { nanos: 11000000 }
            backward { nanos: 22000000 }
            communication_wait { nanos: 3000000 }
            optimizer { nanos: 4000000 }
            snapshot { nanos: 5000000 }
          }
          payload_sent_bytes: 1073741824
          payload_theory_bytes: 1063004405
          evaluation_accuracy: 0.4125
          checkpoint_step: 100
          skipped_samples: 3
        }
        sample { step: 100 prompt: "The" text: " sea\033" }
      )pb",
      &job));
  return job;
}

TEST(LiveTableTest, SaysThatComputingIsEmulated) {
  v1::Job job = LanguageJob();
  const std::string line = "computing is emulated: the loss means nothing";
  EXPECT_THAT(LiveTable(job, {}, {}), testing::Not(testing::Contains(line)));
  job.mutable_spec()->mutable_train()->mutable_emulate_compute();
  EXPECT_THAT(LiveTable(job, {}, {}), testing::Contains(line));
}

TEST(LiveTableTest, ShowsWhereTheTimeGoesAndTheLastSample) {
  const auto lines = LiveTable(LanguageJob(), {}, {});
  EXPECT_EQ("\n" + absl::StrJoin(lines, "\n"),
            R"(
mlp-1  RUNNING  generation 3  2 ranks
[#######-----------------------]  step 120/500  24%  eta 2.0s
loss 2.310
evaluation loss 2.400, accuracy 41.2% at step 100
912345 tokens/s  step 3.1ms  MFU 41%  learning rate 0.0003  gradient norm 1.250
data 12us  forward 11.0ms  backward 22.0ms  exposed 3.0ms  update 4.0ms
exposed communication 12%, data 1%  sent 1.00GiB, theory 1014MiB (1.01x)
checkpoint of step 100  3 samples skipped  snapshot 5.0ms
RANK  WORKER  HOST     PID  STEP  AGE  PHASE
   0  w-0     alpha    101   120    -  -
   1  w-1     beta   20202   119    -  -
+- sample after step 100 ------------------------------------------------------+
| The sea\x1b                                                                  |
+------------------------------------------------------------------------------+)");
  for (const std::string& line : lines) EXPECT_LE(DisplayWidth(line), 80);
}

TEST(LiveTableTest, TheSampleLeavesRoomForTheRanks) {
  v1::Job job = LanguageJob();
  job.mutable_sample()->set_text(std::string(5000, 'x'));
  for (int i = 2; i < 1000; ++i) job.add_members()->set_rank(i);
  const auto lines = LiveTable(job, {}, {});
  EXPECT_THAT(lines, SizeIs(23));
  EXPECT_THAT(lines[15], HasSubstr("more ranks"));
  EXPECT_THAT(lines[16], HasSubstr("+- sample after step 100"));
  EXPECT_THAT(lines[21], HasSubstr("| ..."));
}

TEST(LiveTableTest, ShowsHowGradientsAreReducedAndWhoKeepsTheOthersWaiting) {
  v1::Job job = RunningJob();
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(
      R"pb(
        figures {
          all_reduce_duration { nanos: 2100000 }
          predicted_all_reduce_duration { nanos: 1800000 }
          all_reduce_algorithms: COLLECTIVE_ALGORITHM_EXCHANGE
          all_reduce_algorithms: COLLECTIVE_ALGORITHM_HALVING_DOUBLING
        }
        straggler {
          member { rank: 3 worker: "w3" host: "h7\x07" }
          wait_ratio: 0.31
        }
      )pb",
      &job));
  const auto lines = LiveTable(job, {}, {});
  EXPECT_THAT(lines, Contains("all-reduce exchange, halving_doubling, 2.1ms a "
                              "step, predicted 1.8ms"));
  EXPECT_THAT(lines, Contains("straggler rank 3 (w3 on h7?): the others wait "
                              "for it 31% of the time"));
}

TEST(LiveTableTest, SaysThatAPredictionIsWrong) {
  v1::Job job = RunningJob();
  const auto line_for = [&](int measured_us, int predicted_us) {
    job.mutable_figures()->mutable_all_reduce_duration()->set_nanos(
        measured_us * 1000);
    job.mutable_figures()->mutable_predicted_all_reduce_duration()->set_nanos(
        predicted_us * 1000);
    const std::string text =
        absl::StrJoin(LiveTable(job, {}, {.width = 200}), "\n");
    const size_t begin = text.find("all-reduce");
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  EXPECT_EQ(line_for(1900, 1000), "all-reduce 1.9ms a step, predicted 1.0ms");
  EXPECT_EQ(line_for(10131, 307),
            "all-reduce 10.1ms a step, predicted 307us, which is wrong by a "
            "factor of 33.0");
  EXPECT_EQ(line_for(500, 1500),
            "all-reduce 500us a step, predicted 1.5ms, which is wrong by a "
            "factor of 3.0");
  EXPECT_EQ(line_for(500, 0), "all-reduce 500us a step");
}

// At each width lines that are cut end in an ellipsis, and begin with the word that
// matters.
TEST(LiveTableTest, NothingIsCutWithoutAWord) {
  v1::Job job = LanguageJob();
  job.set_message("trains on 2 ranks, " + std::string(300, 'x'));
  job.mutable_start_time()->set_seconds(1000);
  job.mutable_figures()->set_total_steps(1'000'000);
  job.mutable_verdict()->set_worker("w-2");
  job.mutable_verdict()->set_summary("w-2 was lost: " + std::string(300, 'y'));
  const JobContext context = {.losses = {9, 3, 2, 1},
                              .now = absl::FromUnixSeconds(1'000'000)};
  const auto whole = LiveTable(job, context, {.width = 1000, .height = 50});
  for (const int width : {60, 80, 200}) {
    for (const bool unicode : {false, true}) {
      const auto lines = LiveTable(
          job, context, {.width = width, .height = 50, .unicode = unicode});
      EXPECT_THAT(lines, Contains(StartsWith("incident: w-2 was lost")));
      for (const std::string& line : lines) {
        EXPECT_LE(DisplayWidth(line), width) << line;
        const bool is_cut = line.ends_with(unicode ? "…" : "...");
        if (unicode || is_cut || line.front() == '[' || line.front() == '|' ||
            line.front() == '+') {
          continue;
        }
        EXPECT_THAT(whole, Contains(line));
      }
      // Where there is little room, the bar is what gives way.
      EXPECT_THAT(lines[1], HasSubstr("  step 120/1000000  0%  elapsed 11d"));
      EXPECT_THAT(lines[1], HasSubstr("eta 2.0s"));
    }
  }
}

TEST(LiveTableTest, ShowsHowStaleAnswersAreAndWhatMembersDo) {
  v1::Job job = RunningJob();
  job.mutable_members(0)->set_phase(v1::PHASE_STEP);
  v1::Member& server = *job.mutable_members(1);
  server.mutable_figures()->add_staleness(3);
  server.mutable_figures()->add_staleness(1);
  server.set_phase(v1::PHASE_STEP);
  server.set_waiting_for_rank(0);
  const std::string text = absl::StrJoin(LiveTable(job, {}, {}), "\n");
  EXPECT_THAT(text, HasSubstr("\nstaleness 0: 75%, 1: 25% (no bound)\n"));
  EXPECT_THAT(text, HasSubstr("120    -  STEP\n"));
  EXPECT_THAT(text, HasSubstr("119    -  STEP, waits for rank 0"));
}

TEST(LiveTableTest, ShowsColorsAndTheLossCurveWhereTheyCanBeShown) {
  const Style style{.color = true, .unicode = true};
  const auto lines = LiveTable(RunningJob(), {.losses = {3, 2}}, style);
  EXPECT_EQ(
      lines[0],
      "\x1b[1mmlp-1\x1b[0m  \x1b[32mRUNNING\x1b[0m  generation 3  2 ranks");
  EXPECT_THAT(lines[1], HasSubstr("[███████░░░"));
  EXPECT_EQ(lines[2], "loss 2.310 \x1b[36m█▁\x1b[0m");
}

TEST(LiveTableTest, ShowsWhatAJobWaitsForBeforeItsFirstStep) {
  const v1::Job job = JobOf(R"pb(id: "mlp-2"
                                 state: JOB_STATE_QUEUED
                                 queue_position: 2
                                 message: "waits for mlp-1")pb");
  EXPECT_THAT(LiveTable(job, {}, {}),
              ElementsAre("mlp-2  QUEUED  2 before it in the queue",
                          "waits for mlp-1"));
}

TEST(LiveTableTest, ShowsTheLastIncidentAndALostConnection) {
  v1::Job job = RunningJob();
  job.mutable_verdict()->set_worker("w-2");
  job.mutable_verdict()->set_rank(2);
  job.mutable_verdict()->set_summary("its stream broke");
  const auto lines = LiveTable(job, {.notice = "no connection"}, {});
  EXPECT_EQ(lines[6],
            "incident: worker w-2, rank 2: its stream broke; not decided yet");
  EXPECT_EQ(lines[7], "no connection");
}

TEST(LiveTableTest, NeverExceedsTheTerminal) {
  v1::Job job = RunningJob();
  for (int i = 2; i < 1000; ++i) job.add_members()->set_rank(i);
  const Style style{.width = 30, .height = 12};
  const auto lines = LiveTable(job, {}, style);
  EXPECT_THAT(lines, SizeIs(11));
  EXPECT_EQ(lines.back(), "... and 997 more ranks");
  for (const std::string& line : lines) EXPECT_LE(DisplayWidth(line), 30);
  EXPECT_THAT(LiveTable(job, {}, {.width = 30, .height = 3}), SizeIs(2));
}

TEST(LiveTableTest, PromisesNothingForAJobThatHasEnded) {
  v1::Job job = RunningJob();
  job.set_state(v1::JOB_STATE_CANCELLED);
  EXPECT_THAT(absl::StrJoin(LiveTable(job, {}, {}), "\n"),
              HasSubstr("step 120/500  24%\n"));
}

TEST(LiveTableTest, DefusesTextFromOtherMachines) {
  v1::Job job = RunningJob();
  job.mutable_members(0)->set_host("a\x1b]0;evil\x07");
  EXPECT_THAT(absl::StrJoin(LiveTable(job, {}, {}), "\n"),
              HasSubstr("a?]0;evil?"));
}

TEST(ProgressLineTest, TellsTheStepInOneLine) {
  EXPECT_EQ(
      ProgressLine(RunningJob()),
      "step 120/500 loss 2.310 samples/s 81234 step 3.1ms wait 12% eta 2.0s");
}

TEST(ProgressLineTest, AddsTheEvaluationAtItsStep) {
  v1::Job job = RunningJob();
  job.mutable_figures()->set_evaluation_step(120);
  EXPECT_THAT(ProgressLine(job),
              HasSubstr("loss 2.310 evaluation 2.400 samples/s"));
}

TEST(ProgressLineTest, CountsTheTokensOfALanguageModel) {
  v1::Job job = LanguageJob();
  job.mutable_figures()->set_evaluation_step(120);
  EXPECT_EQ(ProgressLine(job),
            "step 120/500 loss 2.310 evaluation 2.400 accuracy 41.2% tokens/s "
            "912345 step 3.1ms wait 12% MFU 41% rate 0.0003 eta 2.0s");
}

TEST(FinalLineTest, TellsHowWellClassesAreToldApart) {
  v1::Job job = LanguageJob();
  job.set_state(v1::JOB_STATE_SUCCEEDED);
  job.mutable_figures()->set_evaluation_step(120);
  job.mutable_figures()->set_evaluation_top5_accuracy(0.8);
  job.mutable_figures()->set_evaluation_macro_f1(0.25);
  const auto lines = LiveTable(job, {}, {});
  EXPECT_THAT(lines, testing::Contains("evaluation loss 2.400, accuracy 41.2%, "
                                       "top 5 80.0%, macro F1 25.0% at step "
                                       "120"));
  EXPECT_THAT(
      ProgressLine(job),
      HasSubstr("2.400 accuracy 41.2% top 5 80.0% macro F1 25.0% tokens/s"));
  EXPECT_THAT(FinalLine(job, {}),
              HasSubstr("accuracy 41.2%, top 5 80.0%, macro F1 25.0%, "));
}

TEST(FinalLineTest, TellsTheAccuracyTheCheckpointAndWhatWasSkipped) {
  v1::Job job = LanguageJob();
  job.set_state(v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(FinalLine(job, {}),
            "job mlp-1 succeeded: 120/500 steps, loss 2.310, evaluation loss "
            "2.400, accuracy 41.2%, checkpoint of step 100, 3 samples "
            "skipped");
}

TEST(IncidentLineTest, NamesTheCulpritOnce) {
  v1::Verdict verdict;
  verdict.set_worker("w-1");
  verdict.set_rank(1);
  verdict.set_decision(v1::VERDICT_DECISION_REFORM);
  verdict.set_summary("killed");
  EXPECT_EQ(IncidentLine(verdict, {}),
            "incident: worker w-1, rank 1: killed; the job goes on without it");
  verdict.set_summary("w-1 was lost");
  EXPECT_EQ(IncidentLine(verdict, {}),
            "incident: w-1 was lost; the job goes on without it");
}

TEST(StateLineTest, TellsTheStateAndWhy) {
  EXPECT_EQ(StateLine(JobOf(R"pb(id: "j-1"
                                 state: JOB_STATE_GATHERING
                                 message: "1 of 2 workers")pb")),
            "job j-1 is GATHERING: 1 of 2 workers");
  v1::Job halting = RunningJob();
  halting.set_state(v1::JOB_STATE_HALTING);
  EXPECT_EQ(StateLine(halting), "job mlp-1 is HALTING, generation 3");
}

TEST(FinalLineTest, TellsTheEvaluationLossAndTheParametersHash) {
  v1::Job job = RunningJob();
  job.set_state(v1::JOB_STATE_SUCCEEDED);
  job.mutable_figures()->set_step(500);
  job.mutable_start_time()->set_seconds(1000);
  job.mutable_end_time()->set_seconds(1021);
  job.set_parameters_hash("9f3c00aa");
  EXPECT_EQ(FinalLine(job, {}),
            "job mlp-1 succeeded: 500/500 steps in 21s, loss 2.310, evaluation "
            "loss 2.400, parameters 9f3c00aa");
}

TEST(FinalLineTest, TellsWhyAJobFailed) {
  const v1::Job job = JobOf(R"pb(id: "j-1"
                                 state: JOB_STATE_FAILED
                                 figures { total_steps: 9 }
                                 message: "data unreadable")pb");
  EXPECT_EQ(FinalLine(job, {}), "job j-1 failed: 0/9 steps: data unreadable");
  EXPECT_EQ(FinalLine(JobOf(R"pb(id: "j-1" state: JOB_STATE_CANCELLED)pb"), {}),
            "job j-1 was cancelled: 0 steps");
}

TEST(VerdictLinesTest, NamesCulpritPlaceEvidenceAndDecision) {
  v1::Job job;
  v1::Verdict& verdict = *job.mutable_verdict();
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        worker: "w-1"
        rank: 1
        host: "beta"
        pid: 42
        generation: 3
        step: 119
        collective_sequence: 7
        summary: "killed"
        evidence {
          kind: EVIDENCE_KIND_STREAM_BROKEN
          observer: "coordinator"
          detail: "connection reset"
        }
        decision: VERDICT_DECISION_FAIL_JOB
        exit_code: 138)pb",
      &verdict));
  EXPECT_THAT(
      VerdictLines(job, "", {}),
      ElementsAre(
          "verdict:  killed", "culprit:  worker w-1, rank 1, host beta, pid 42",
          "where:    generation 3, step 119, collective 7",
          "evidence: STREAM_BROKEN seen by coordinator: connection reset",
          "decision: the job ends with exit code 138"));
  verdict.set_evidence_count(4096);
  EXPECT_THAT(VerdictLines(job, "", {}),
              ::testing::Contains("evidence: and 4095 more"));
  verdict.clear_worker();
  verdict.set_decision(v1::VERDICT_DECISION_REFORM);
  EXPECT_THAT(VerdictLines(job, "", {}),
              ::testing::Contains("culprit:  nobody could be blamed"));
  EXPECT_EQ(VerdictLines(job, "", {}).back(), "decision: the job goes on");
}

// As where a worker's own error ends a job.
TEST(VerdictLinesTest, NothingIsToldTwice) {
  const v1::Job job = JobOf(R"pb(
    id: "j-1"
    state: JOB_STATE_FAILED
    message: "worker w-1 (rank 1, host beta, pid 42) failed: no such file"
    verdict {
      worker: "w-1"
      rank: 1
      host: "beta"
      pid: 42
      generation: 3
      summary: "worker w-1 (rank 1, host beta, pid 42) failed: no such file"
      evidence {
        kind: EVIDENCE_KIND_SELF_REPORT
        observer: "w-1"
        detail: "no such file"
      }
      evidence {
        kind: EVIDENCE_KIND_PEER_REPORT
        observer: "w-2"
        detail: "it hung up"
      }
      evidence {
        kind: EVIDENCE_KIND_PEER_REPORT
        observer: "w-3"
        detail: "it hung up"
      }
      decision: VERDICT_DECISION_FAIL_JOB
      exit_code: 5
    })pb");
  EXPECT_THAT(VerdictLines(job, FinalLine(job, {}), {}),
              ElementsAre("where:    generation 3, step 0",
                          "evidence: SELF_REPORT seen by w-1",
                          "evidence: PEER_REPORT seen by w-2: it hung up",
                          "evidence: PEER_REPORT seen by w-3",
                          "decision: the job ends with exit code 5"));
  // The table above the final line leaves the cause to it.
  EXPECT_EQ(LiveTable(job, {}, {.width = 200}).size(), 1u);
  v1::Job other = job;
  other.mutable_verdict()->set_pid(43);
  EXPECT_THAT(VerdictLines(other, FinalLine(other, {}), {}),
              Contains("culprit:  worker w-1, rank 1, host beta, pid 43"));
}

TEST(VerdictLinesTest, SaysWhenItWasAndHowOldTheStepIs) {
  const v1::Job job = JobOf(R"pb(
    verdict {
      worker: "w-1"
      generation: 3
      step: 119
      time { seconds: 1767355384 nanos: 123000000 }
    }
    incidents {
      verdict { worker: "w-1" generation: 3 }
      cost { detect { seconds: 1 nanos: 500000000 } }
    })pb");
  EXPECT_THAT(VerdictLines(job, "", {}),
              ::testing::IsSupersetOf(
                  {"where:    generation 3, step 119 (reported 1.5s before the "
                   "verdict)",
                   "when:     2026-01-02T12:03:04.123+00:00"}));
}

constexpr std::string_view kResumedJob = R"pb(
  id: "j-2"
  state: JOB_STATE_SUCCEEDED
  figures { step: 2500 total_steps: 2500 }
  resumption { step: 2500 checkpoint: "/data/step-000002500" })pb";

TEST(ResumptionLineTest, NamesStepAndCheckpoint) {
  EXPECT_EQ(ResumptionLine(JobOf(kResumedJob)),
            "resumed from step 2500: checkpoint /data/step-000002500");
  v1::Job of_job = JobOf(kResumedJob);
  of_job.mutable_resumption()->set_job_id("digits-1");
  EXPECT_EQ(ResumptionLine(of_job),
            "resumed from step 2500: checkpoint /data/step-000002500 of job "
            "digits-1");
  EXPECT_EQ(ResumptionLine(RunningJob()), "");
}

TEST(ResumptionLineTest, WhatWasNotMeasuredIsNotShown) {
  const v1::Job job = JobOf(kResumedJob);
  EXPECT_EQ(ProgressLine(job), "step 2500/2500");
  EXPECT_EQ(FinalLine(job, {}),
            "job j-2 succeeded: 2500/2500 steps, resumed from step 2500");
  for (const std::string& line : LiveTable(job, {}, {.width = 200}))
    EXPECT_THAT(line, ::testing::Not(::testing::HasSubstr("loss")));
}

TEST(LiveTableTest, ShowsTheTimeElapsed) {
  v1::Job job = RunningJob();
  job.mutable_start_time()->set_seconds(1000);
  EXPECT_THAT(
      LiveTable(job, {.now = absl::FromUnixSeconds(1065)}, {.width = 200}),
      ::testing::Contains(::testing::HasSubstr("  elapsed 1m05s")));
}

TEST(NamesTest, KnowsNamesAndShowsUnknownNumbers) {
  EXPECT_EQ(NameOf(v1::PHASE_STEP), "STEP");
  EXPECT_EQ(NameOf(v1::PHASE_UNSPECIFIED), "-");
  EXPECT_EQ(NameOf(static_cast<v1::JobState>(77)), "77");
  EXPECT_TRUE(HasEnded(v1::JOB_STATE_CANCELLED));
  EXPECT_FALSE(HasEnded(v1::JOB_STATE_STOPPING));
}

}  // namespace
}  // namespace ringmaster::ctl
