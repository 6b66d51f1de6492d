#include "worker/figures/step_figures_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "common/clock/testing/fake_clock.h"
#include "worker/figures/testing/testing_files.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class StepFiguresLogTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<StepFiguresLog>> Open(
      int64_t resume_step = 0) {
    return StepFiguresLog::Open(
        {.directory = directory_,
         .resume_step = resume_step,
         .host = "h",
         .wall_time = [] { return absl::FromUnixSeconds(1700000000); }},
        clock_);
  }

  FakeClock clock_;
  const std::string directory_ = FreshDirectory() + "/runs/1";
  const std::string metrics_path_ = directory_ + "/metrics.jsonl";
  const std::string events_path_ =
      directory_ + "/events.out.tfevents.1700000000.h";
};

TEST_F(StepFiguresLogTest, MakesItsDirectoryAndWritesBothFilesAtClose) {
  auto log = Open();
  ASSERT_TRUE(log.ok()) << log.status();
  ASSERT_TRUE((*log)->RecordStep({.step = 1, .loss = 2.5}).ok());
  EXPECT_EQ(ContentOf(metrics_path_), "");
  ASSERT_TRUE((*log)->Close().ok());
  EXPECT_THAT(ContentOf(metrics_path_), HasSubstr("\"loss\":2.5,"));
  EXPECT_THAT(ContentOf(events_path_), HasSubstr("train/loss"));
}

TEST_F(StepFiguresLogTest, WritesOnceASecond) {
  auto log = Open();
  ASSERT_TRUE(log.ok()) << log.status();
  clock_.Advance(absl::Milliseconds(999));
  ASSERT_TRUE((*log)->RecordStep({.step = 1}).ok());
  EXPECT_EQ(ContentOf(metrics_path_), "");
  clock_.Advance(absl::Milliseconds(1));
  ASSERT_TRUE((*log)->RecordStep({.step = 2}).ok());
  const std::string written = ContentOf(metrics_path_);
  EXPECT_THAT(written, HasSubstr("\"step\":2,"));
  ASSERT_TRUE((*log)->RecordStep({.step = 3}).ok());
  EXPECT_EQ(ContentOf(metrics_path_), written);
}

TEST_F(StepFiguresLogTest, DoesNotKeepManyLongSamplesInMemory) {
  auto log = Open();
  ASSERT_TRUE(log.ok()) << log.status();
  ASSERT_TRUE(
      (*log)->RecordSample(1, "", std::string(size_t{1} << 20, 'x')).ok());
  EXPECT_GT(ContentOf(metrics_path_).size(), size_t{1} << 20);
}

// Others rely on it: they keep as many steps as may be lost with this process.
TEST_F(StepFiguresLogTest, WritesAfterAsManySteps) {
  auto log = Open();
  ASSERT_TRUE(log.ok()) << log.status();
  const int64_t most = StepFiguresLog::kMostUnwrittenSteps;
  for (int64_t step = 1; step < most; ++step)
    ASSERT_TRUE((*log)->RecordStep({.step = step}).ok());
  EXPECT_EQ(ContentOf(metrics_path_), "");
  ASSERT_TRUE((*log)->RecordStep({.step = most}).ok());
  EXPECT_THAT(ContentOf(metrics_path_),
              HasSubstr("{\"step\":" + std::to_string(most) + ","));
}

TEST_F(StepFiguresLogTest, WritesAnEvaluationAtOnce) {
  auto log = Open();
  ASSERT_TRUE(log.ok()) << log.status();
  ASSERT_TRUE((*log)->RecordEvaluation(5, {1.5}).ok());
  EXPECT_THAT(ContentOf(metrics_path_), HasSubstr("evaluation"));
}

TEST_F(StepFiguresLogTest, DoesNotRecordAgainWhatIsInTheFile) {
  for (int life = 0; life < 2; ++life) {
    auto log = Open(/*resume_step=*/5);
    ASSERT_TRUE(log.ok()) << log.status();
    EXPECT_EQ((*log)->last().step, life == 0 ? 0 : 5);
    ASSERT_TRUE((*log)->RecordStep({.step = 5}).ok());
    ASSERT_TRUE((*log)->RecordEvaluation(5, {1.5}).ok());
    ASSERT_TRUE((*log)->RecordSample(5, "a", "b").ok());
    EXPECT_EQ((*log)->last().evaluation, 5);
    EXPECT_EQ((*log)->last().sample, 5);
  }
  const std::string lines = ContentOf(metrics_path_);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3) << lines;
}

TEST_F(StepFiguresLogTest, APartialRecordHasWhatIsKnown) {
  auto log = Open();
  ASSERT_TRUE(log.ok()) << log.status();
  StepRecord record = PartialRecord(7);
  record.gradient_norm = 2;
  ASSERT_TRUE((*log)->RecordStep(record).ok());
  ASSERT_TRUE((*log)->Close().ok());
  const std::string line = ContentOf(metrics_path_);
  EXPECT_THAT(line, HasSubstr("\"loss\":null,\"gradient_norm\":2,"));
  EXPECT_THAT(line, HasSubstr("\"total_seconds\":null,\"wire_payload_bytes\":"
                              "null,\"wire_theory_bytes\":null"));
  EXPECT_THAT(ContentOf(events_path_), Not(HasSubstr("train/loss")));
}

TEST_F(StepFiguresLogTest, TheEndWritesWhatIsLeft) {
  {
    auto log = Open();
    ASSERT_TRUE(log.ok()) << log.status();
    ASSERT_TRUE((*log)->RecordStep({.step = 1}).ok());
  }
  EXPECT_THAT(ContentOf(metrics_path_), HasSubstr("\"step\":1,"));
}

TEST_F(StepFiguresLogTest, RecordsAllThatHappensBesidesSteps) {
  auto log = Open();
  ASSERT_TRUE(log.ok()) << log.status();
  ASSERT_TRUE((*log)->RecordEvaluation(5, {1.5, 0.5, 0.75, 0.25}).ok());
  ASSERT_TRUE((*log)->RecordSample(5, "int ", "main() {}").ok());
  ASSERT_TRUE((*log)->RecordCheckpoint(5, absl::Seconds(2), 99).ok());
  ASSERT_TRUE((*log)->Close().ok());
  const std::string metrics = ContentOf(metrics_path_);
  EXPECT_THAT(metrics, HasSubstr("\"accuracy\":0.5,\"top5_accuracy\":0.75,"
                                 "\"macro_f1\":0.25}"));
  EXPECT_THAT(metrics, HasSubstr("\"prompt\":\"int \",\"text\":\"main() {}\""));
  EXPECT_THAT(metrics, HasSubstr("\"duration_seconds\":2,\"bytes\":99}"));
  const std::string events = ContentOf(events_path_);
  EXPECT_THAT(events, HasSubstr("evaluation/loss"));
  EXPECT_THAT(events, HasSubstr("evaluation/accuracy"));
  EXPECT_THAT(events, HasSubstr("evaluation/top5_accuracy"));
  EXPECT_THAT(events, HasSubstr("evaluation/macro_f1"));
  EXPECT_THAT(events, HasSubstr("```\nmain() {}\n```\n"));
  EXPECT_THAT(events, HasSubstr("checkpoint/duration_seconds"));
  EXPECT_THAT(events, HasSubstr("checkpoint/bytes"));
}

TEST_F(StepFiguresLogTest, LeavesOutOfTheEventsWhatIsNotKnown) {
  auto log = Open();
  ASSERT_TRUE(log.ok()) << log.status();
  ASSERT_TRUE((*log)->RecordStep({.step = 1}).ok());
  ASSERT_TRUE((*log)->RecordEvaluation(1, {1.5}).ok());
  ASSERT_TRUE((*log)->Close().ok());
  EXPECT_THAT(ContentOf(events_path_), Not(HasSubstr("utilization")));
  EXPECT_THAT(ContentOf(events_path_), Not(HasSubstr("accuracy")));
  ASSERT_TRUE(
      (*log)->RecordStep({.step = 2, .model_flops_utilization = 0.5}).ok());
  ASSERT_TRUE((*log)->Close().ok());
  EXPECT_THAT(ContentOf(events_path_),
              HasSubstr("speed/model_flops_utilization"));
}

TEST_F(StepFiguresLogTest, ASampleIsShownAsItIs) {
  auto log = Open();
  ASSERT_TRUE(log.ok()) << log.status();
  ASSERT_TRUE((*log)->RecordSample(1, "\xff", "a ```` b").ok());
  ASSERT_TRUE((*log)->Close().ok());
  const std::string events = ContentOf(events_path_);
  EXPECT_THAT(events, HasSubstr("```\n\xef\xbf\xbd\n```\n"));
  EXPECT_THAT(events, HasSubstr("\n`````\na ```` b\n`````\n"));
}

TEST_F(StepFiguresLogTest, AResumedJobForgetsLaterSteps) {
  for (int64_t step = 1; step <= 3; ++step) {
    auto log = Open(step - 1);
    ASSERT_TRUE(log.ok()) << log.status();
    ASSERT_TRUE((*log)->RecordStep({.step = step}).ok());
  }
  auto log = Open(1);
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_EQ((*log)->removed_lines(), 2);
  EXPECT_THAT(ContentOf(metrics_path_), HasSubstr("{\"step\":1,"));
  EXPECT_THAT(ContentOf(metrics_path_), Not(HasSubstr("{\"step\":2,")));
  ASSERT_TRUE((*log)->Close().ok());
  // step = 2, session_log {status = START}
  EXPECT_THAT(ContentOf(events_path_ + ".3"),
              HasSubstr("\x10\x02\x3a\x02\x08\x01"));
}

TEST_F(StepFiguresLogTest, AFullDiskIsReportedOnceAndTrainingGoesOn) {
  auto log = Open();
  ASSERT_TRUE(log.ok()) << log.status();
  const FullDisk disk(10);
  ASSERT_TRUE((*log)->RecordStep({.step = 1}).ok());
  const absl::Status status = (*log)->Close();
  EXPECT_THAT(std::string(status.message()), HasSubstr(metrics_path_));
  EXPECT_THAT(std::string(status.message()), HasSubstr(events_path_));
  for (int64_t step = 2; step < 5; ++step) {
    clock_.Advance(absl::Seconds(1));
    EXPECT_TRUE((*log)->RecordStep({.step = step}).ok());
  }
  EXPECT_TRUE((*log)->Close().ok());
}

TEST_F(StepFiguresLogTest, OneFileThatFailsDoesNotStopTheOther) {
  auto log = Open();
  ASSERT_TRUE(log.ok()) << log.status();
  const FullDisk disk(1700);  // a quote is two bytes in JSON
  const absl::Status written =
      (*log)->RecordSample(1, "", std::string(1000, '"'));
  EXPECT_THAT(
      std::string(written.message()),
      testing::AllOf(HasSubstr(metrics_path_), Not(HasSubstr(events_path_))));
  ASSERT_TRUE((*log)->RecordEvaluation(2, {1}).ok());
  EXPECT_TRUE((*log)->Close().ok());
  EXPECT_THAT(ContentOf(events_path_), HasSubstr("evaluation/loss"));
}

TEST_F(StepFiguresLogTest, ADirectoryThatCannotBeMadeIsNamed) {
  const std::string file = FreshDirectory() + "/file";
  WriteContent(file, "");
  const absl::Status status =
      StepFiguresLog::Open({.directory = file + "/runs"}, clock_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr(file + "/runs"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("Not a directory"));
}

TEST(StepRecordTest, ARingSendsLessThanTwiceTheBytes) {
  EXPECT_EQ(AllReduceWireBytes(1000, 1), 0);
  EXPECT_EQ(AllReduceWireBytes(1000, 2), 1000);
  EXPECT_EQ(AllReduceWireBytes(1000, 4), 1500);
}

}  // namespace
}  // namespace ringmaster
