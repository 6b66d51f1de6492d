// Whole trainers as threads of one process: newcomers take over the state,
// copies are interrupted, generations pause.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/status/exit_code.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/train/testing/trainer_workers.h"

namespace ringmaster {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int64_t kSteps = 16;

enum class Optimizer { kAdamw, kSgd, kMomentum };

v1::TrainProgram ProgramOf(Optimizer optimizer) {
  v1::TrainProgram program = SmallProgram(kSteps);
  if (optimizer != Optimizer::kAdamw) {
    v1::SgdSpec* sgd = program.mutable_optimizer()->mutable_sgd();
    sgd->set_learning_rate(0.05);
    sgd->set_momentum(optimizer == Optimizer::kMomentum ? 0.9 : 0);
  }
  return program;
}

uint64_t HashWithoutInterruption(const v1::TrainProgram& program, int ranks) {
  TrainerWorkers workers(ranks);
  std::vector<int> members;
  for (int i = 0; i < ranks; ++i) members.push_back(i);
  return workers.RunGeneration(1, members, program, 0, [] {})[0]
      .parameters_hash;
}

// Trains with all workers until a point somewhere in the fifth step, where each
// loses the others. Returns the step at which those of `survivors` resume.
int64_t TrainUntilTheFault(TrainerWorkers& workers,
                           const std::vector<int>& members,
                           const std::vector<int>& survivors,
                           const v1::TrainProgram& program) {
  const auto passes = static_cast<int64_t>(4 * members.size() + 1);
  FailPoint::Arm("train.commit_received", FailPoint::Action::kError, passes);
  const auto outcomes = workers.RunGeneration(1, members, program, 0, [] {});
  FailPoint::DisarmAll();
  int64_t resume_step = INT64_MAX;
  for (const int survivor : survivors) {
    const RunOutcome& outcome = outcomes[static_cast<size_t>(survivor)];
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kPeerFailed) << outcome.status;
    resume_step = std::min(resume_step, outcome.complete_step);
  }
  return resume_step;
}

void ExpectAllFinished(const std::vector<RunOutcome>& outcomes, uint64_t hash) {
  for (const RunOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kFinished) << outcome.status;
    EXPECT_EQ(outcome.applied_step, kSteps);
    EXPECT_EQ(outcome.parameters_hash, hash);
  }
}

class NewcomerTest : public ::testing::TestWithParam<Optimizer> {
 protected:
  ~NewcomerTest() override { FailPoint::DisarmAll(); }
};

INSTANTIATE_TEST_SUITE_P(Optimizers, NewcomerTest,
                         ::testing::Values(Optimizer::kAdamw, Optimizer::kSgd,
                                           Optimizer::kMomentum));

TEST_P(NewcomerTest, AReplacedRankChangesNoBitOfTheResult) {
  const v1::TrainProgram program = ProgramOf(GetParam());
  TrainerWorkers workers(3);
  const int64_t step = TrainUntilTheFault(workers, {0, 1, 2}, {0, 2}, program);
  workers.Replace(1);
  const auto outcomes = workers.RunGeneration(
      2, {0, 1, 2}, program, step, [] {}, {.source_rank = 0, .newcomers = {1}});
  ExpectAllFinished(outcomes, HashWithoutInterruption(program, 3));
}

TEST_P(NewcomerTest, TheSourceMayBeAnyRankAndNewcomersMany) {
  const v1::TrainProgram program = ProgramOf(GetParam());
  TrainerWorkers workers(4);
  const int64_t step = TrainUntilTheFault(workers, {0, 1, 2, 3}, {2}, program);
  for (const int worker : {0, 1, 3}) workers.Replace(worker);
  const auto outcomes =
      workers.RunGeneration(2, {0, 1, 2, 3}, program, step, [] {},
                            {.source_rank = 2, .newcomers = {0, 1, 3}});
  ExpectAllFinished(outcomes, HashWithoutInterruption(program, 4));
}

TEST_F(NewcomerTest, WhatANewcomerHoldsOfTheJobIsReplaced) {
  const v1::TrainProgram program = ProgramOf(Optimizer::kAdamw);
  TrainerWorkers workers(2);
  const int64_t step = TrainUntilTheFault(workers, {0, 1}, {0}, program);
  // Worker 1 keeps its process, and an older state than that of the job.
  workers.trainer(1).Release();
  FailPoint::Arm("train.step", FailPoint::Action::kError, 2);
  workers.RunGeneration(2, {1}, program, 0, [] {});
  FailPoint::DisarmAll();
  EXPECT_EQ(workers.trainer(1).progress().applied_step, 1);
  const auto outcomes = workers.RunGeneration(
      3, {0, 1}, program, step, [] {}, {.source_rank = 0, .newcomers = {1}});
  ExpectAllFinished(outcomes, HashWithoutInterruption(program, 2));
}

struct Interruption {
  const char* fail_point;
  int64_t at_pass;
  // The fault may strike another rank once the newcomer has everything.
  bool may_be_taken_over = false;
};

class InterruptedCopyTest : public ::testing::TestWithParam<Interruption> {
 protected:
  ~InterruptedCopyTest() override { FailPoint::DisarmAll(); }
};

INSTANTIATE_TEST_SUITE_P(
    FailPoints, InterruptedCopyTest,
    ::testing::Values(Interruption{"train.transfer_begin", 1},
                      Interruption{"train.transfer_begin", 3},
                      Interruption{"train.transfer_piece", 1},
                      Interruption{"train.transfer_piece", 2},
                      Interruption{"train.transfer_piece", 6},
                      Interruption{"train.transfer_end", 1},
                      Interruption{"train.transfer_end", 3, true}));

TEST_P(InterruptedCopyTest, IsMadeAgainAndChangesNoBitOfTheResult) {
  const v1::TrainProgram program = ProgramOf(Optimizer::kAdamw);
  TrainerWorkers workers(3);
  const int64_t step = TrainUntilTheFault(workers, {0, 1, 2}, {0, 2}, program);
  workers.Replace(1);
  const StateTransfer copy = {.source_rank = 0, .newcomers = {1}};
  FailPoint::Arm(GetParam().fail_point, FailPoint::Action::kError,
                 GetParam().at_pass);
  // Nobody gets beyond the next step's commit.
  FailPoint::Arm("train.reduced", FailPoint::Action::kError);
  const auto interrupted = workers.RunGeneration(
      2, {0, 1, 2}, program, step, [] {}, copy);
  EXPECT_GE(FailPoint::PassCount(GetParam().fail_point), GetParam().at_pass);
  FailPoint::DisarmAll();
  for (const size_t rank : {0, 2}) {
    EXPECT_EQ(interrupted[rank].kind, RunOutcome::Kind::kPeerFailed);
    EXPECT_EQ(interrupted[rank].applied_step, step);
    EXPECT_EQ(interrupted[rank].complete_step, step);
  }
  EXPECT_EQ(interrupted[1].applied_step, interrupted[1].complete_step);
  const bool is_blank = interrupted[1].applied_step == 0;
  EXPECT_TRUE(is_blank || (GetParam().may_be_taken_over &&
                           interrupted[1].applied_step == step))
      << interrupted[1].applied_step;
  const auto outcomes = workers.RunGeneration(
      3, {0, 1, 2}, program, step, [] {}, is_blank ? copy : StateTransfer());
  ExpectAllFinished(outcomes, HashWithoutInterruption(program, 3));
}

TEST_F(NewcomerTest, AnAbortInTheMiddleOfTheCopyLeavesItWithoutAStep) {
  const v1::TrainProgram program = ProgramOf(Optimizer::kAdamw);
  TrainerWorkers workers(2);
  const int64_t step = TrainUntilTheFault(workers, {0, 1}, {0}, program);
  workers.Replace(1);
  // One rank hangs before a piece, and the other waits for that piece.
  FailPoint::Arm("train.transfer_piece", FailPoint::Action::kHang, 4);
  const auto outcomes = workers.RunGeneration(
      2, {0, 1}, program, step,
      [&] {
        while (FailPoint::HangingCount("train.transfer_piece") < 1)
          std::this_thread::yield();
        EXPECT_EQ(workers.trainer(0).progress().phase, TrainPhase::kTransfer);
        for (const int worker : {0, 1})
          workers.trainer(worker).Abort(2, "halt");
        FailPoint::DisarmAll();
      },
      {.source_rank = 0, .newcomers = {1}});
  EXPECT_EQ(outcomes[0].kind, RunOutcome::Kind::kInterrupted);
  // Rank 0's closed connection may reach it before its own abort.
  EXPECT_THAT(outcomes[1].kind, AnyOf(RunOutcome::Kind::kInterrupted,
                                      RunOutcome::Kind::kPeerFailed));
  EXPECT_EQ(outcomes[0].complete_step, step);
  EXPECT_EQ(outcomes[1].complete_step, 0);
}

TEST_F(NewcomerTest, OneThatWasCutOffBeginsAnewWhereNobodyHoldsTheSteps) {
  const v1::TrainProgram program = ProgramOf(Optimizer::kAdamw);
  TrainerWorkers workers(2);
  const int64_t step = TrainUntilTheFault(workers, {0, 1}, {0}, program);
  workers.Replace(1);
  FailPoint::Arm("train.transfer_end", FailPoint::Action::kError);
  workers.RunGeneration(2, {0, 1}, program, step, [] {},
                        {.source_rank = 0, .newcomers = {1}});
  FailPoint::DisarmAll();
  workers.Replace(0);
  ExpectAllFinished(workers.RunGeneration(3, {0, 1}, program, 0, [] {}),
                    HashWithoutInterruption(program, 2));
}

TEST_F(NewcomerTest, ARankThatHoldsStepsDoesNotBeginAnew) {
  const v1::TrainProgram program = ProgramOf(Optimizer::kAdamw);
  TrainerWorkers workers(2);
  TrainUntilTheFault(workers, {0, 1}, {0}, program);
  const auto agreement =
      workers.trainer(0).Prepare(SpecOf(program), workers.Assign(2, {0}, 0, 0));
  EXPECT_EQ(agreement.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(NewcomerTest, ASourceThatIsANewcomerItselfIsAnErrorOfAllRanks) {
  const v1::TrainProgram program = ProgramOf(Optimizer::kAdamw);
  TrainerWorkers workers(2);
  const auto outcomes = workers.RunGeneration(
      1, {0, 1}, program, 4, [] {}, {.source_rank = 0, .newcomers = {0, 1}});
  for (const RunOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kFailed);
    EXPECT_EQ(ExitCodeOf(outcome.status), ExitCode::kPlanMismatch);
    EXPECT_THAT(std::string(outcome.status.message()),
                HasSubstr("rank 0 is to give its state of step 4"));
  }
}

// A bit flips on the last of `ranks` that has got its copy.
void FlipABitOfOne(int ranks) {
  FailPoint::Arm("train.transfer_flip", FailPoint::Action::kError, ranks);
}

TEST_F(NewcomerTest, ARankWhoseMemoryFailedCostsThatRank) {
  const v1::TrainProgram program = ProgramOf(Optimizer::kAdamw);
  TrainerWorkers workers(4);
  const int64_t step =
      TrainUntilTheFault(workers, {0, 1, 2, 3}, {0, 1, 2}, program);
  workers.Replace(3);
  FlipABitOfOne(4);
  const auto ends = workers.RunGeneration(2, {0, 1, 2, 3}, program, step, [] {},
                                          {.source_rank = 0, .newcomers = {3}});
  FailPoint::DisarmAll();
  int odd = -1;
  for (int rank = 0; rank < 4; ++rank) {
    const RunOutcome& end = ends[static_cast<size_t>(rank)];
    if (end.kind == RunOutcome::Kind::kFailed) {
      EXPECT_EQ(odd, -1) << "one bit was flipped";
      EXPECT_EQ(ExitCodeOf(end.status), ExitCode::kPlanMismatch);
      EXPECT_EQ(end.complete_step, 0);
      odd = rank;
      continue;
    }
    EXPECT_EQ(end.kind, RunOutcome::Kind::kPeerFailed) << end.status;
    EXPECT_FALSE(end.holds_other_state);
    EXPECT_EQ(end.complete_step, rank == 3 ? 0 : step);
  }
  ASSERT_GE(odd, 0);
  workers.Replace(odd);
  const int source = odd == 0 ? 1 : 0;
  const auto outcomes =
      workers.RunGeneration(3, {0, 1, 2, 3}, program, step, [] {},
                            {.source_rank = source, .newcomers = {odd, 3}});
  ExpectAllFinished(outcomes, HashWithoutInterruption(program, 4));
}

TEST_F(NewcomerTest, WhereNobodyCanTellWhichStateIsRightAllBeginAnew) {
  const v1::TrainProgram program = ProgramOf(Optimizer::kAdamw);
  TrainerWorkers workers(2);
  const int64_t step = TrainUntilTheFault(workers, {0, 1}, {0, 1}, program);
  FlipABitOfOne(2);
  const auto ends = workers.RunGeneration(2, {0, 1}, program, step, [] {},
                                          {.source_rank = 0, .newcomers = {}});
  FailPoint::DisarmAll();
  for (const size_t rank : {0, 1}) {
    EXPECT_EQ(ends[rank].kind, RunOutcome::Kind::kPeerFailed);
    EXPECT_TRUE(ends[rank].holds_other_state) << ends[rank].status;
    EXPECT_EQ(ends[rank].peer_rank, static_cast<int>(1 - rank));
    EXPECT_EQ(ends[rank].complete_step, 0);
  }
  ExpectAllFinished(workers.RunGeneration(3, {0, 1}, program, 0, [] {}),
                    HashWithoutInterruption(program, 2));
}

// Steps of the lines of metrics.jsonl, in order.
std::vector<std::string> StepLines(const std::string& directory) {
  std::ifstream file(directory + "/metrics.jsonl");
  std::vector<std::string> steps;
  for (std::string line; std::getline(file, line);) {
    if (line.find("\"kind\":\"step\"") == std::string::npos) continue;
    steps.push_back(line.substr(0, line.find(',')));
  }
  return steps;
}

TEST_F(NewcomerTest, TakesTheStateAndNotACheckpointAndWritesTheFilesOn) {
  const std::string directory = ::testing::TempDir() + "/newcomer_files";
  v1::TrainProgram program = ProgramOf(Optimizer::kAdamw);
  program.mutable_checkpoint()->set_directory(directory);
  program.mutable_checkpoint()->set_every_steps(2);
  program.mutable_checkpoint()->set_keep(2);
  program.mutable_checkpoint()->set_resume(true);
  TrainerWorkers workers(2);
  const int64_t step = TrainUntilTheFault(workers, {0, 1}, {1}, program);
  workers.Replace(0);  // which wrote the files
  const auto outcomes = workers.RunGeneration(
      2, {0, 1}, program, step, [] {}, {.source_rank = 1, .newcomers = {0}});
  ExpectAllFinished(outcomes,
                    HashWithoutInterruption(ProgramOf(Optimizer::kAdamw), 2));
  int64_t written = 0;
  for (const v1::Notice& notice : workers.Notices()) {
    EXPECT_NE(notice.kind(), v1::NOTICE_KIND_CHECKPOINT_LOADED);
    EXPECT_NE(notice.kind(), v1::NOTICE_KIND_FIGURES_FAILED)
        << notice.message();
    if (notice.kind() == v1::NOTICE_KIND_CHECKPOINT_WRITTEN)
      written = std::max(written, notice.step());
  }
  EXPECT_EQ(written, kSteps);
  std::vector<std::string> expected;
  for (int64_t s = 1; s <= kSteps; ++s)
    expected.push_back(absl::StrCat("{\"step\":", s));
  EXPECT_EQ(StepLines(directory), expected);
}

// It does not matter that they are more than the samples of a batch.
TEST_F(NewcomerTest, AGenerationWithoutAStepHandsTheStateOver) {
  const v1::TrainProgram program = ProgramOf(Optimizer::kAdamw);
  const uint64_t whole = HashWithoutInterruption(program, 2);
  TrainerWorkers workers(4);
  const int64_t step = TrainUntilTheFault(workers, {0, 1}, {0, 1}, program);
  const auto outcomes = workers.RunGeneration(
      2, {0, 1, 2, 3}, program, step, [] {},
      {.source_rank = 0, .newcomers = {2, 3}, .makes_no_step = true});
  for (const RunOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kStopped) << outcome.status;
    EXPECT_EQ(outcome.applied_step, step);
    EXPECT_EQ(outcome.parameters_hash, outcomes[0].parameters_hash);
  }
  ExpectAllFinished(workers.RunGeneration(3, {2, 3}, program, step, [] {}),
                    whole);
}

TEST_F(NewcomerTest, APauseEndsAtOneStepAndDoesNotOutliveItsGeneration) {
  const v1::TrainProgram program = ProgramOf(Optimizer::kAdamw);
  TrainerWorkers workers(3);
  FailPoint::Arm("train.step", FailPoint::Action::kHang, 7);
  const auto paused = workers.RunGeneration(1, {0, 1}, program, 0, [&] {
    while (FailPoint::HangingCount("train.step") < 1) std::this_thread::yield();
    for (const int worker : {0, 1}) workers.trainer(worker).RequestDrain();
    FailPoint::DisarmAll();
  });
  for (const RunOutcome& outcome : paused) {
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kDrained) << outcome.status;
    EXPECT_EQ(outcome.applied_step, paused[0].applied_step);
    EXPECT_LT(outcome.applied_step, kSteps);
  }
  const auto outcomes =
      workers.RunGeneration(2, {0, 1, 2}, program, paused[0].applied_step,
                            [] {}, {.source_rank = 0, .newcomers = {2}});
  ExpectAllFinished(outcomes, outcomes[0].parameters_hash);
}

}  // namespace
}  // namespace ringmaster
