#include "server/ctl/commands/job_display.h"

#include <string>

#include "common/clock/testing/fake_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ctl/terminal/screen.h"

namespace ringmaster::ctl {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

WatchSnapshot SnapshotAt(int64_t step,
                         v1::JobState state = v1::JOB_STATE_RUNNING) {
  v1::Job job;
  job.set_id("mlp-1");
  job.set_state(state);
  job.set_generation(1);
  job.mutable_figures()->set_step(step);
  job.mutable_figures()->set_total_steps(9);
  job.mutable_figures()->set_loss(2.5);
  WatchSnapshot snapshot;
  snapshot.job = job;
  snapshot.updates = step + 1;
  return snapshot;
}

std::string Take(FakeConsole& console) {
  return std::exchange(console.out, "");
}

TEST(JobDisplayTest, PrintsALineAtStateChangesAndAStepASecond) {
  FakeClock clock;
  FakeConsole console;
  JobDisplay display(console, OutputFormat::kTable, clock);
  display.Update(SnapshotAt(0, v1::JOB_STATE_PREPARING));
  EXPECT_EQ(Take(console), "job mlp-1 is PREPARING, generation 1\n");
  display.Update(SnapshotAt(1));
  EXPECT_EQ(Take(console),
            "job mlp-1 is RUNNING, generation 1\nstep 1/9 loss 2.500 samples/s "
            "0.00 step 0s wait 0%\n");
  display.Update(SnapshotAt(2));
  EXPECT_EQ(Take(console), "");
  EXPECT_EQ(display.next_update(), clock.Now() + absl::Seconds(1));
  clock.Advance(absl::Seconds(1));
  display.Update(SnapshotAt(2));
  EXPECT_THAT(Take(console), HasSubstr("step 2/9"));
  clock.Advance(absl::Seconds(1));
  display.Update(SnapshotAt(2));
  EXPECT_EQ(Take(console), "");
}

TEST(JobDisplayTest, EndsWithTheLastStepAndTheFinalLine) {
  FakeClock clock;
  FakeConsole console;
  JobDisplay display(console, OutputFormat::kTable, clock);
  WatchSnapshot last = SnapshotAt(9, v1::JOB_STATE_SUCCEEDED);
  last.job->set_parameters_hash("ab12");
  last.job->mutable_figures()->set_evaluation_loss(2.75);
  display.Update(last);
  EXPECT_EQ(Take(console), "");
  display.Finish(*last.job);
  EXPECT_EQ(Take(console),
            "step 9/9 loss 2.500 samples/s 0.00 step 0s wait 0%\n"
            "job mlp-1 succeeded: 9/9 steps, loss 2.500, evaluation loss "
            "2.750, parameters ab12\n");
}

TEST(JobDisplayTest, ShowsAnIncidentOnceAndTheVerdictOfAFailure) {
  FakeClock clock;
  FakeConsole console;
  JobDisplay display(console, OutputFormat::kTable, clock);
  WatchSnapshot hit = SnapshotAt(3, v1::JOB_STATE_HALTING);
  hit.job->mutable_verdict()->set_worker("w-1");
  hit.job->mutable_verdict()->set_summary("its stream broke");
  hit.job->mutable_verdict()->set_decision(v1::VERDICT_DECISION_REFORM);
  display.Update(hit);
  EXPECT_THAT(Take(console),
              HasSubstr("incident: worker w-1, rank 0: its stream broke; the "
                        "job goes on without it\n"));
  display.Update(hit);
  EXPECT_THAT(Take(console), Not(HasSubstr("incident")));
  hit.job->set_state(v1::JOB_STATE_FAILED);
  display.Finish(*hit.job);
  EXPECT_THAT(Take(console), HasSubstr("culprit:  worker w-1"));
}

TEST(JobDisplayTest, NothingRecoversFromTheIncidentThatEndsAJob) {
  FakeClock clock;
  FakeConsole console;
  JobDisplay display(console, OutputFormat::kTable, clock);
  display.Update(SnapshotAt(3));
  WatchSnapshot hit = SnapshotAt(3, v1::JOB_STATE_FAILED);
  v1::Incident& incident = *hit.job->add_incidents();
  incident.set_number(1);
  incident.set_is_over(true);
  incident.mutable_verdict()->set_decision(v1::VERDICT_DECISION_FAIL_JOB);
  display.Update(hit);
  EXPECT_THAT(Take(console), Not(HasSubstr("recovery")));
}

TEST(JobDisplayTest, SaysOnceFromWhichCheckpointAJobResumed) {
  FakeClock clock;
  FakeConsole console;
  JobDisplay display(console, OutputFormat::kTable, clock);
  WatchSnapshot snapshot = SnapshotAt(3);
  snapshot.job->mutable_resumption()->set_step(2);
  snapshot.job->mutable_resumption()->set_checkpoint("/ck/step-2");
  display.Update(snapshot);
  EXPECT_THAT(Take(console),
              HasSubstr("resumed from step 2: checkpoint /ck/step-2\n"));
  display.Update(snapshot);
  EXPECT_EQ(Take(console), "");
}

TEST(JobDisplayTest, TellsOfCheckpointsThatFailOnceForEachFailure) {
  FakeClock clock;
  FakeConsole console;
  JobDisplay display(console, OutputFormat::kTable, clock);
  WatchSnapshot snapshot = SnapshotAt(3);
  v1::Member& member = *snapshot.job->add_members();
  for (const char* error :
       {"after step 2: no space", "after step 3: no space"}) {
    member.set_checkpoint_error(error);
    display.Update(snapshot);
    EXPECT_THAT(Take(console), HasSubstr(error));
    display.Update(snapshot);
    EXPECT_EQ(Take(console), "");
  }
  member.clear_checkpoint_error();
  display.Update(snapshot);
  EXPECT_EQ(Take(console), "");
}

TEST(JobDisplayTest, TellsTheCostOfARecoveryOnceItIsOver) {
  FakeClock clock;
  FakeConsole console;
  JobDisplay display(console, OutputFormat::kTable, clock);
  WatchSnapshot snapshot = SnapshotAt(3);
  v1::Incident& before = *snapshot.job->add_incidents();
  before.set_number(1);
  before.set_is_over(true);
  display.Update(snapshot);
  EXPECT_THAT(Take(console), Not(HasSubstr("recovery")));
  v1::Incident& incident = *snapshot.job->add_incidents();
  incident.set_number(2);
  incident.mutable_cost()->mutable_total()->set_seconds(4);
  display.Update(snapshot);
  EXPECT_THAT(Take(console), Not(HasSubstr("recovery")));
  incident.set_is_over(true);
  display.Update(snapshot);
  EXPECT_EQ(Take(console), "recovery: 4.0s; interruption 2\n");
  display.Update(snapshot);
  EXPECT_EQ(Take(console), "");
}

TEST(JobDisplayTest, PrintsEachSampleOnceAndTheLastOneAtTheEnd) {
  FakeClock clock;
  FakeConsole console;
  JobDisplay display(console, OutputFormat::kTable, clock);
  display.Update(SnapshotAt(1));
  Take(console);
  WatchSnapshot snapshot = SnapshotAt(1);
  snapshot.job->mutable_sample()->set_step(1);
  snapshot.job->mutable_sample()->set_prompt("The");
  snapshot.job->mutable_sample()->set_text(" sea\nis \x1b calm");
  display.Update(snapshot);
  EXPECT_EQ(Take(console), "sample after step 1:\nThe sea\nis \\x1b calm\n");
  display.Update(snapshot);
  EXPECT_EQ(Take(console), "");
  WatchSnapshot last = SnapshotAt(9, v1::JOB_STATE_SUCCEEDED);
  *last.job->mutable_sample() = snapshot.job->sample();
  last.job->mutable_sample()->set_step(9);
  display.Update(last);
  EXPECT_EQ(Take(console), "");
  display.Finish(*last.job);
  EXPECT_THAT(Take(console),
              EndsWith("loss 2.500\nsample after step 9:\nThe sea\nis \\x1b "
                       "calm\n"));
  // Single lines have already said it.
  JobDisplay other(console, OutputFormat::kTable, clock);
  other.Update(snapshot);
  Take(console);
  other.Finish(*snapshot.job);
  EXPECT_THAT(Take(console), Not(HasSubstr("sample")));
}

TEST(JobDisplayTest, FramesTheSampleUnderTheTable) {
  FakeClock clock;
  FakeConsole console;
  console.is_terminal = true;
  JobDisplay display(console, OutputFormat::kTable, clock);
  WatchSnapshot snapshot = SnapshotAt(1);
  snapshot.job->mutable_sample()->set_prompt("The");
  snapshot.job->mutable_sample()->set_text(" sea");
  display.Update(snapshot);
  EXPECT_THAT(Take(console), HasSubstr("| The sea "));
  snapshot.job->set_state(v1::JOB_STATE_SUCCEEDED);
  display.Finish(*snapshot.job);
  EXPECT_THAT(Take(console), Not(HasSubstr("| The sea ")));
}

TEST(JobDisplayTest, TellsOnceThatTheCoordinatorIsAwayAndBack) {
  FakeClock clock;
  FakeConsole console;
  JobDisplay display(console, OutputFormat::kTable, clock);
  display.Update(SnapshotAt(1));
  Take(console);
  WatchSnapshot lost = SnapshotAt(1);
  lost.lost = "refused";
  display.Update(lost);
  display.Update(lost);
  EXPECT_EQ(Take(console), "lost the coordinator, trying again: refused\n");
  display.Update(SnapshotAt(1));
  EXPECT_EQ(Take(console), "connected to the coordinator again\n");
}

TEST(JobDisplayTest, RedrawsATableOnATerminalTenTimesASecond) {
  FakeClock clock;
  FakeConsole console;
  console.is_terminal = true;
  JobDisplay display(console, OutputFormat::kTable, clock);
  display.Update(SnapshotAt(1));
  EXPECT_THAT(Take(console), HasSubstr("step 1/9"));
  display.Update(SnapshotAt(2));
  EXPECT_EQ(Take(console), "");
  EXPECT_EQ(display.next_update(), clock.Now() + absl::Milliseconds(100));
  clock.Advance(absl::Milliseconds(100));
  display.Update(SnapshotAt(2));
  EXPECT_THAT(Take(console), HasSubstr("step 2/9"));
  WatchSnapshot lost = SnapshotAt(2);
  lost.lost = "refused";
  clock.Advance(absl::Milliseconds(100));
  display.Update(lost);
  EXPECT_THAT(Take(console),
              HasSubstr("no connection to the coordinator; trying again"));
  display.Finish(*SnapshotAt(9, v1::JOB_STATE_SUCCEEDED).job);
  EXPECT_THAT(console.out, HasSubstr(std::string(kShowCursor)));
  EXPECT_THAT(console.out,
              EndsWith("job mlp-1 succeeded: 9/9 steps, loss 2.500\n"));
}

TEST(JobDisplayTest, PrintsAJsonLineAnUpdateAndNotesOnStderr) {
  FakeClock clock;
  FakeConsole console;
  JobDisplay display(console, OutputFormat::kJson, clock);
  display.Update(SnapshotAt(1));
  display.Update(SnapshotAt(1));
  EXPECT_THAT(console.out, HasSubstr("\"id\":\"mlp-1\""));
  EXPECT_EQ(std::count(console.out.begin(), console.out.end(), '\n'), 1);
  WatchSnapshot lost = SnapshotAt(1);
  lost.lost = "refused";
  display.Update(lost);
  EXPECT_EQ(console.error, "lost the coordinator, trying again: refused\n");
  display.Finish(*lost.job);
  EXPECT_EQ(std::count(console.out.begin(), console.out.end(), '\n'), 1);
}

TEST(ExitCodeOfJobTest, IsZeroForSuccessOnly) {
  v1::Job job;
  job.set_state(v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(ExitCodeOfJob(job), 0);
  job.set_state(v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(ExitCodeOfJob(job), 143);
  job.set_state(v1::JOB_STATE_FAILED);
  EXPECT_EQ(ExitCodeOfJob(job), 1);
  job.set_exit_code(138);
  EXPECT_EQ(ExitCodeOfJob(job), 138);
}

}  // namespace
}  // namespace ringmaster::ctl
