#include "server/ctl/compare/observer.h"

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster::ctl {
namespace {

constexpr int64_t kBatch = 32;

RunResult Planned() {
  RunResult run;
  run.workers = 2;
  run.steps = 100;
  run.global_batch = kBatch;
  return run;
}

void Set(google::protobuf::Duration& duration, double seconds) {
  duration.set_seconds(static_cast<int64_t>(seconds));
  duration.set_nanos(static_cast<int>(
      (seconds - static_cast<double>(duration.seconds())) * 1e9));
}

// A rank that takes 1 s a step, of which it waits `exposed`.
void AddRank(v1::Job& job, int rank, int64_t steps, double exposed) {
  v1::Member& member = *job.add_members();
  member.set_rank(rank);
  v1::RankFigures& figures = *member.mutable_figures();
  figures.set_steps(steps);
  const auto count = static_cast<double>(steps);
  Set(*figures.mutable_duration(), count);
  Set(*figures.mutable_phases()->mutable_forward(), 0.25 * count);
  Set(*figures.mutable_phases()->mutable_backward(), 0.25 * count);
  Set(*figures.mutable_phases()->mutable_communication_wait(), exposed * count);
  // The beginning costs bytes too.
  figures.set_sent_bytes(5000 + 100 * steps);
  figures.set_received_bytes(200 * steps);
  figures.set_peak_resident_bytes(1 << 20);
  figures.set_gradient_bytes(64);
}

v1::Job JobAt(int64_t step, double loss) {
  v1::Job job;
  job.set_generation(1);
  job.mutable_figures()->set_step(step);
  job.mutable_figures()->set_loss(loss);
  AddRank(job, 0, step, 0.25);
  AddRank(job, 1, step, 0.125);
  return job;
}

TEST(RunObserverTest, TakesTheDifferenceAfterTheFirstTenthOfTheSteps) {
  RunObserver observer(Planned());
  observer.Take(JobAt(4, 3), 10);
  observer.Take(JobAt(10, 2), 11);
  observer.Take(JobAt(100, 1), 20);
  const RunResult run = observer.Finish();
  ASSERT_TRUE(run.is_ok()) << run.failure;
  ASSERT_EQ(run.ranks.size(), 2u);
  EXPECT_EQ(run.ranks[0].steps, 90);
  EXPECT_DOUBLE_EQ(run.ranks[0].sent_bytes, 100);
  EXPECT_DOUBLE_EQ(run.ranks[0].received_bytes, 200);
  EXPECT_DOUBLE_EQ(run.ranks[0].peak_resident_bytes, 1 << 20);
  EXPECT_DOUBLE_EQ(run.step_seconds, 1);
  EXPECT_DOUBLE_EQ(run.compute_seconds, 0.5);
  EXPECT_DOUBLE_EQ(run.backward_seconds, 0.25);
  EXPECT_DOUBLE_EQ(run.transfer_seconds, 0.125);
  EXPECT_DOUBLE_EQ(run.waiting_seconds, 0.0625);
  EXPECT_DOUBLE_EQ(run.other_seconds, 1 - 0.5 - 0.1875);
  EXPECT_DOUBLE_EQ(run.samples_per_second, kBatch);
  EXPECT_DOUBLE_EQ(run.gradient_bytes, 64);
  ASSERT_EQ(run.losses.size(), 3u);
  EXPECT_DOUBLE_EQ(run.losses[1].seconds, 1);
  EXPECT_DOUBLE_EQ(run.losses[1].samples, 10 * kBatch);
  EXPECT_DOUBLE_EQ(run.final_loss, 1);
}

TEST(RunObserverTest, MeasuresAServerByTheStepsOfItsShard) {
  RunObserver observer(Planned());
  // Its beats are older than those of the workers.
  for (const int64_t step : {12, 52}) {
    v1::Job job = JobAt(step, 1);
    AddRank(job, 2, step - 2, 0);
    observer.Take(job, static_cast<double>(step));
  }
  const RunResult run = observer.Finish();
  ASSERT_EQ(run.ranks.size(), 3u);
  EXPECT_TRUE(run.ranks[2].is_server);
  EXPECT_EQ(run.ranks[2].steps, 40);
  EXPECT_DOUBLE_EQ(run.ranks[2].sent_bytes, 100);
  EXPECT_DOUBLE_EQ(run.transfer_seconds, 0.125) << "of the workers alone";
}

TEST(RunObserverTest, AddsUpHowStaleTheAnswersOfAllServersWere) {
  RunObserver observer(Planned());
  for (const int64_t count : {1, 5}) {
    v1::Job job = JobAt(50, 1);
    AddRank(job, 2, 0, 0);
    AddRank(job, 3, 0, 0);
    job.mutable_members(2)->mutable_figures()->add_staleness(count);
    job.mutable_members(3)->mutable_figures()->add_staleness(10 * count);
    job.mutable_members(3)->mutable_figures()->add_staleness(count);
    observer.Take(job, 1);
  }
  EXPECT_EQ(observer.Finish().staleness, (std::vector<int64_t>{55, 5}));
  RunObserver without(Planned());
  without.Take(JobAt(50, 1), 1);
  EXPECT_TRUE(without.Finish().staleness.empty());
}

TEST(RunObserverTest, FailsARunThatWasNotInItsMode) {
  RunResult planned = Planned();
  planned.mode = *ParseMode("ps:1");
  RunObserver without(planned);
  without.Take(JobAt(50, 1), 1);
  EXPECT_EQ(without.Finish().failure, "no parameter server took part");
  planned.mode = *ParseMode("ps:colocated");
  RunObserver reduced(planned);
  v1::Job job = JobAt(50, 1);
  Set(*job.mutable_figures()->mutable_all_reduce_duration(), 0.5);
  reduced.Take(job, 1);
  EXPECT_EQ(reduced.Finish().failure,
            "gradients were all-reduced, and not sent to parameter servers");
}

TEST(RunObserverTest, BeginsAnewWithAGeneration) {
  RunObserver observer(Planned());
  observer.Take(JobAt(50, 1), 1);
  v1::Job job = JobAt(60, 1);
  job.set_generation(2);
  job.clear_members();
  AddRank(job, 0, 5, 0);
  observer.Take(job, 2);
  const RunResult run = observer.Finish();
  ASSERT_EQ(run.ranks.size(), 1u);
  EXPECT_EQ(run.ranks[0].steps, 5) << "too few to leave some out";
}

TEST(RunObserverTest, FailsWithoutASingleStep) {
  RunObserver observer(Planned());
  observer.Take(v1::Job(), 1);
  EXPECT_EQ(observer.Finish().failure, "no step was seen");
  RunResult planned = Planned();
  planned.failure = "the job failed";
  EXPECT_EQ(RunObserver(planned).Finish().failure, "the job failed");
}

}  // namespace
}  // namespace ringmaster::ctl
