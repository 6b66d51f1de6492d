#include "worker/member/progress_board.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <fstream>
#include <utility>
#include <vector>

#include "common/protocol/proto_time.h"
#include "common/transport/wire_totals.h"

namespace ringmaster {
namespace {

StepFigures Step(int64_t step, absl::Duration duration) {
  StepFigures figures;
  figures.step = step;
  figures.samples = 100;
  figures.duration = duration;
  figures.targets = 400;
  figures.peak_seconds = 0.05;
  figures.phases.communication_wait = duration / 4;
  figures.phases.data_wait = duration / 10;
  return figures;
}

TEST(ProgressBoardTest, TellsOfPhasesAndOfTheFirstStepOfAGeneration) {
  ProgressBoard board;
  std::vector<int64_t> told;
  board.SetAdvanceCallback(
      [&told](int64_t generation) { told.push_back(generation); });
  const auto times = [&told] { return std::exchange(told, {}).size(); };
  board.EnterPhase(TrainPhase::kConnect);
  EXPECT_EQ(times(), 0u) << "without a generation";
  board.EnterPhase(TrainPhase::kPrepare);
  board.BeginGeneration(2, 11);
  EXPECT_EQ(times(), 0u);
  for (const TrainPhase phase : {TrainPhase::kConnect, TrainPhase::kTransfer,
                                 TrainPhase::kCheckpoint, TrainPhase::kStep}) {
    board.EnterPhase(phase);
    board.EnterPhase(phase);
    EXPECT_EQ(std::exchange(told, {}), std::vector<int64_t>{2});
  }
  board.RecordStep(Step(1, absl::Milliseconds(500)));
  EXPECT_EQ(times(), 1u);
  board.RecordStep(Step(2, absl::Milliseconds(500)));
  board.EnterPhase(TrainPhase::kEvaluate);
  board.EnterPhase(TrainPhase::kStep);
  board.EnterPhase(TrainPhase::kHalted);
  EXPECT_EQ(times(), 0u);
  board.BeginGeneration(3, 11);
  board.RecordStep(Step(3, absl::Milliseconds(500)));
  EXPECT_EQ(std::exchange(told, {}), std::vector<int64_t>{3});
}

TEST(ProgressBoardTest, AddsUpWhatARankHasDoneInAGeneration) {
  ProgressBoard board;
  CountSent(1000);
  board.BeginGeneration(2, 11);
  CountSent(30);
  CountReceived(20);
  EXPECT_EQ(board.progress().totals.sent_bytes(), 30) << "without steps";
  board.RecordStep(Step(1, absl::Milliseconds(500)));
  board.RecordStep(Step(2, absl::Milliseconds(100)));
  CountSent(7);
  const v1::RankFigures totals = board.progress().totals;
  EXPECT_EQ(totals.steps(), 2);
  EXPECT_EQ(FromProto(totals.duration()), absl::Milliseconds(600));
  EXPECT_EQ(FromProto(totals.phases().communication_wait()),
            absl::Milliseconds(150));
  EXPECT_EQ(FromProto(totals.phases().data_wait()), absl::Milliseconds(60));
  EXPECT_EQ(totals.sent_bytes(), 30) << "as of the last step";
  EXPECT_EQ(totals.received_bytes(), 20);
  EXPECT_GE(FromProto(totals.cpu_time()), absl::ZeroDuration());
  EXPECT_GT(totals.peak_resident_bytes(), 1 << 20);
  board.BeginGeneration(3, 11);
  EXPECT_EQ(board.progress().totals.steps(), 0);
  EXPECT_EQ(board.progress().totals.sent_bytes(), 0);
}

// A worker of a pool trains one job after the other.
TEST(ProgressBoardTest, ThePeakOfMemoryIsThatOfTheGeneration) {
  if (!std::ofstream("/proc/self/clear_refs").is_open())
    GTEST_SKIP() << "this kernel does not let a peak be forgotten";
  constexpr int64_t kLarge = int64_t{64} << 20;
  ProgressBoard board;
  board.BeginGeneration(2, 11);
  // Not from the heap, which may keep what is freed.
  void* const large = mmap(nullptr, kLarge, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  ASSERT_NE(large, MAP_FAILED);
  board.RecordStep(Step(1, absl::Milliseconds(1)));
  ASSERT_EQ(munmap(large, kLarge), 0);
  const int64_t before = board.progress().totals.peak_resident_bytes();
  board.BeginGeneration(3, 11);
  board.RecordStep(Step(1, absl::Milliseconds(1)));
  const int64_t after = board.progress().totals.peak_resident_bytes();
  EXPECT_LT(after, before - kLarge / 2);
  EXPECT_GT(after, 1 << 20);
}

TEST(ProgressBoardTest, ShowsRatesOfTheFirstStepAtOnce) {
  ProgressBoard board;
  board.BeginGeneration(2, 11);
  board.RecordStep(Step(1, absl::Milliseconds(500)));
  const v1::TrainingFigures figures = board.progress().figures;
  EXPECT_DOUBLE_EQ(figures.samples_per_second(), 200);
  EXPECT_DOUBLE_EQ(figures.communication_wait_ratio(), 0.25);
  EXPECT_DOUBLE_EQ(figures.data_wait_ratio(), 0.1);
  EXPECT_DOUBLE_EQ(figures.targets_per_second(), 800);
  EXPECT_DOUBLE_EQ(figures.model_flops_utilization(), 0.1);
  EXPECT_EQ(FromProto(figures.phases().communication_wait()),
            absl::Milliseconds(125));
  EXPECT_EQ(FromProto(figures.remaining_duration()), absl::Seconds(5));
}

TEST(ProgressBoardTest, FollowsAChangeOfPaceSlowly) {
  ProgressBoard board;
  board.RecordStep(Step(1, absl::Seconds(1)));
  board.RecordStep(Step(2, absl::Seconds(2)));
  EXPECT_EQ(FromProto(board.progress().figures.step_duration()),
            absl::Milliseconds(1100));
}

TEST(ProgressBoardTest, ForgetsThePaceOfAnEarlierGeneration) {
  ProgressBoard board;
  board.RecordStep(Step(1, absl::Seconds(10)));
  board.BeginGeneration(2, 100);
  board.RecordStep(Step(2, absl::Seconds(1)));
  EXPECT_EQ(FromProto(board.progress().figures.step_duration()),
            absl::Seconds(1));
}

TEST(ProgressBoardTest, TheDisksBytesOutliveTheJob) {
  ProgressBoard board;
  board.disk().Add(1000);
  EXPECT_EQ(board.progress().disk_bytes, 1000);
  board.Clear();
  board.disk().Add(24);
  EXPECT_EQ(board.progress().disk_bytes, 1024);
}

TEST(ProgressBoardTest, KeepsTheEvaluationUntilCleared) {
  ProgressBoard board;
  board.RecordEvaluation(20, {1.5, 0.25, 0.75, 0.125});
  board.RecordStep(Step(21, absl::Seconds(1)));
  EXPECT_TRUE(board.progress().figures.has_evaluation_loss());
  EXPECT_DOUBLE_EQ(board.progress().figures.evaluation_loss(), 1.5);
  EXPECT_DOUBLE_EQ(board.progress().figures.evaluation_accuracy(), 0.25);
  EXPECT_DOUBLE_EQ(board.progress().figures.evaluation_top5_accuracy(), 0.75);
  EXPECT_DOUBLE_EQ(board.progress().figures.evaluation_macro_f1(), 0.125);
  board.Clear();
  EXPECT_FALSE(board.progress().figures.has_evaluation_loss());
  board.RecordEvaluation(20, {1.5, 0.25});
  EXPECT_FALSE(board.progress().figures.has_evaluation_top5_accuracy());
  EXPECT_FALSE(board.progress().figures.has_evaluation_macro_f1());
}

}  // namespace
}  // namespace ringmaster
