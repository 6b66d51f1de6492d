#include "server/coordinator/core/account/goodput.h"

#include "gtest/gtest.h"

namespace ringmaster::coordinator {
namespace {

MonotonicTime At(double seconds) {
  return MonotonicTime() + absl::Seconds(seconds);
}

// An active job whose account begins at 0 s.
State WithJob(Stage stage) {
  State state;
  Job job;
  job.number = 1;
  job.stage = stage;
  state.jobs.emplace(1, job);
  state.active_jobs = {1};
  StartAccounting(state, At(0));
  return state;
}

TEST(GoodputTest, EachStateHasItsPartAndTheyAddUpToTheWhole) {
  State state = WithJob(stage::Gathering{});
  Job& job = *state.ActiveJobs()[0];
  AccountTime(state, At(1));
  job.stage = stage::Preparing{};
  AccountTime(state, At(3));
  job.stage = stage::Running{};
  AccountTime(state, At(6));
  job.best_step = 1;
  AccountTime(state, At(16));
  job.stage = stage::Halting{};
  job.incidents.emplace_back();
  AccountTime(state, At(17));
  job.stage = stage::Gathering{};
  AccountTime(state, At(19));
  job.stage = stage::Running{};
  AccountTime(state, At(20));
  job.incidents.back().set_is_over(true);
  AccountTime(state, At(30));
  job.stage = stage::Stopping{};
  AccountTime(state, At(32));
  job.stage = stage::Halting{HaltIntent::kCancel};
  AccountTime(state, At(33));
  job.stage = stage::Ended{v1::JOB_STATE_CANCELLED};
  AccountTime(state, At(99));

  EXPECT_EQ(job.goodput.waiting, absl::Seconds(1));
  EXPECT_EQ(job.goodput.starting, absl::Seconds(5));
  EXPECT_EQ(job.goodput.training, absl::Seconds(20));
  EXPECT_EQ(job.goodput.recovering, absl::Seconds(4));
  EXPECT_EQ(job.goodput.stopping, absl::Seconds(3));
  EXPECT_EQ(job.goodput.Total(), absl::Seconds(33));
  EXPECT_EQ(job.goodput.before_first_step, absl::Seconds(6));
  EXPECT_DOUBLE_EQ(job.goodput.Ratio(), 20.0 / 27);
}

TEST(GoodputTest, WhatIsMadeAgainIsNoTraining) {
  State state = WithJob(stage::Running{});
  Job& job = *state.ActiveJobs()[0];
  job.repeat_until = 100;
  AccountTime(state, At(3));
  job.best_step = 60;
  AccountTime(state, At(4));
  job.best_step = 100;
  AccountTime(state, At(5));
  EXPECT_EQ(job.goodput.repeating, absl::Seconds(4));
  EXPECT_EQ(job.goodput.training, absl::Seconds(1));
  EXPECT_EQ(job.goodput.before_first_step, absl::ZeroDuration());
}

TEST(GoodputTest, DetectionIsTakenFromWhatSeemedToBeTraining) {
  State state = WithJob(stage::Running{});
  Job& job = *state.ActiveJobs()[0];
  job.best_step = 1;
  AccountTime(state, At(10));
  MoveToDetecting(job, absl::Seconds(1.5));
  EXPECT_EQ(job.goodput.training, absl::Seconds(8.5));
  EXPECT_EQ(job.goodput.detecting, absl::Seconds(1.5));
  // No more than there is, whatever the culprit's silence.
  MoveToDetecting(job, absl::Seconds(100));
  EXPECT_EQ(job.goodput.training, absl::ZeroDuration());
  EXPECT_EQ(job.goodput.detecting, absl::Seconds(10));
  EXPECT_EQ(job.goodput.Total(), absl::Seconds(10));
}

TEST(GoodputTest, AQueuedJobWaits) {
  State state = WithJob(stage::Queued{});
  state.active_jobs.clear();
  AccountTime(state, At(7));
  Job& job = state.jobs.at(1);
  EXPECT_EQ(GoodputAt(job, state.now).waiting, absl::Seconds(7));
  Account(job, At(8));
  job.stage = stage::Gathering{};
  EXPECT_EQ(job.goodput.waiting, absl::Seconds(8));
}

TEST(GoodputTest, AJobFromBeforeTheRestartTrainsAtOnce) {
  State state = WithJob(stage::Running{});
  Job& job = *state.ActiveJobs()[0];
  job.is_recovered = true;
  AccountTime(state, At(2));
  EXPECT_EQ(job.goodput.training, absl::Seconds(2));
  EXPECT_DOUBLE_EQ(job.goodput.Ratio(), 1);
}

TEST(GoodputTest, WithoutAStepThereIsNoRatio) {
  State state = WithJob(stage::Running{});
  AccountTime(state, At(2));
  EXPECT_EQ(state.ActiveJobs()[0]->goodput.Ratio(), 0);
}

}  // namespace
}  // namespace ringmaster::coordinator
