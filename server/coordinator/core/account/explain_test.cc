#include "server/coordinator/core/account/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/protocol/proto_time.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

MonotonicTime At(double seconds) {
  return MonotonicTime() + absl::Seconds(100 + seconds);
}

// A pool, and an active job with its members among it; now is 0 s.
class ExplainTest : public ::testing::Test {
 protected:
  ExplainTest() {
    Job job;
    job.id = "gpt-1";
    job.number = 1;
    job.stage = stage::Running{};
    job.min_workers = 2;
    job.max_workers = 3;
    job.total_steps = 100;
    job.generation = 1;
    job.is_assigned = true;
    job.best_step = 12;
    job.turned_at = At(-3.1);
    job.last_progress = At(-0.1);
    state_.active_jobs = {1};
    state_.jobs.emplace(1, job);
    for (int rank = 0; rank < 3; ++rank) AddMember(rank);
  }

  Worker& AddWorker(const std::string& name, const std::string& host) {
    Worker worker;
    worker.name = name;
    worker.host = worker.host_key = host;
    worker.session = state_.workers.size() + 1;
    worker.last_heard = At(-0.2);
    return state_.workers.emplace(name, worker).first->second;
  }

  void AddMember(int rank) {
    const std::string name = "w" + std::to_string(rank);
    Worker& worker = AddWorker(name, "h" + std::to_string(rank));
    worker.state = v1::WORKER_STATE_ASSIGNED;
    worker.job_id = "gpt-1";
    worker.rank = rank;
    worker.step = 12;
    worker.phase = v1::PHASE_STEP;
    Member member;
    member.identity.rank = rank;
    member.identity.worker = name;
    member.identity.host = worker.host;
    member.step = 12;
    job().members.push_back(member);
  }

  void Lose(int rank, const std::string& why) {
    Member& member = job().members[rank];
    member.is_lost = true;
    member.last_sign = At(-2.1);
    member.loss = why;
    state_.workers.erase(state_.workers.find(member.identity.worker));
  }

  Job& job() { return state_.jobs.at(1); }
  Explanation Now() {
    return Explain(state_, job(), config_, At(0), journal_wait_);
  }

  State state_;
  Config config_ = Config::FromFailureBudget(absl::Seconds(2));
  absl::Duration journal_wait_;
};

TEST_F(ExplainTest, ATrainingJobWaitsForNothing) {
  const Explanation explanation = Now();
  EXPECT_EQ(explanation.state, v1::JOB_STATE_RUNNING);
  EXPECT_EQ(explanation.summary, "trains on 3 ranks, step 12 of 100");
  EXPECT_THAT(explanation.reasons, IsEmpty());
  EXPECT_THAT(explanation.blocking, IsEmpty());
  EXPECT_EQ(explanation.what_unblocks, "");
}

TEST_F(ExplainTest, AJobSaysHowLongItKeepsADrainedMember) {
  Cordon& cordon = state_.cordons["w1"];
  cordon.target = "w1";
  cordon.drains = true;
  state_.workers.at("w1").protocol = kLeaveProtocol;
  const auto kept = [this] { return Now().reasons; };
  EXPECT_THAT(kept(),
              ElementsAre("worker w1 (rank 1) is drained; the job keeps "
                          "it until it can do without it"));
  cordon.due = At(60);
  EXPECT_THAT(kept(), ElementsAre(HasSubstr("without it, for 60.0 s at most")));
  state_.workers.at("w1").protocol = kLeaveProtocol - 1;
  EXPECT_THAT(kept(), ElementsAre(HasSubstr("keeps it to its end, since its "
                                            "release is too old to leave")));
  state_.workers.at("w1").protocol = kLeaveProtocol;
  cordon.due = At(-1);
  cordon.is_due = true;
  EXPECT_THAT(kept(), ElementsAre(HasSubstr("it is due, and goes as soon as")));
  job().suspend_retry = At(30);
  EXPECT_THAT(kept(), ElementsAre(HasSubstr(
                          "it is due, and kept since no checkpoint of the "
                          "job's last step could be written; that is tried "
                          "again in 30.0 s")));
  job().stage = stage::Gathering{};
  EXPECT_THAT(kept(), Contains(HasSubstr("it is due, and kept since")));
  job().stage = stage::Running{};
  job().is_benchmark = true;
  EXPECT_THAT(kept(),
              ElementsAre("worker w1 (rank 1) is drained; the job keeps "
                          "it to its end"));
}

TEST_F(ExplainTest, AQueuedJobNamesThoseBeforeIt) {
  for (int number = 2; number <= 3; ++number) {
    Job queued;
    queued.id = "mlp-" + std::to_string(number);
    queued.number = number;
    state_.jobs.emplace(number, queued);
  }
  const Explanation explanation =
      Explain(state_, state_.jobs.at(3), config_, At(0), journal_wait_);
  EXPECT_EQ(explanation.summary,
            "waits behind 2 jobs: gpt-1 (RUNNING, step 12 of 100), mlp-2 "
            "(QUEUED)");
  EXPECT_THAT(explanation.what_unblocks, HasSubstr("the end of gpt-1;"));
}

TEST_F(ExplainTest, AQueuedJobIsForecastAsFarAsSomebodyCanTell) {
  Job& queued = state_.jobs[2];
  queued.id = "mlp-2";
  queued.number = 2;
  queued.min_workers = queued.max_workers = 2;
  const auto reasons = [&] {
    return Explain(state_, queued, config_, At(0), journal_wait_).reasons;
  };
  EXPECT_THAT(reasons(), Contains("when it begins is not known: nobody can "
                                  "tell how long job gpt-1 takes"));
  *job().figures.mutable_step_duration() = ToProto(absl::Seconds(2));
  EXPECT_THAT(reasons(),
              Contains("it is expected to begin in 2m56s, as the jobs that "
                       "have workers go on at their pace"));
}

TEST_F(ExplainTest, AJobThatAsksForLabelsTellsHowManyHaveThem) {
  Job queued;
  queued.id = "mlp-2";
  queued.number = 2;
  queued.needs.labels = {{"gpu", "h100"}};
  state_.jobs.emplace(2, queued);
  const Explanation explanation =
      Explain(state_, state_.jobs.at(2), config_, At(0), journal_wait_);
  EXPECT_THAT(explanation.reasons,
              ElementsAre("workers with gpu=h100: 0 of the 3 in the pool"));
  EXPECT_EQ(explanation.what_unblocks,
            "a larger pool: it needs at least 1 worker with gpu=h100, more "
            "than there are");
}

TEST_F(ExplainTest, AWaitForWorkersTellsWhoIsMissingAndWhoCannotBeTaken) {
  Lose(1, "its stream broke: reset by peer");
  Lose(2, "nothing heard of it for 1.5s");
  AddWorker("d", "h4").state = v1::WORKER_STATE_DRAINING;
  AddWorker("p", "h5").role = v1::ROLE_PARAMETER_SERVER;
  job().stage = stage::Gathering{};
  const Explanation explanation = Now();
  EXPECT_EQ(explanation.summary,
            "waits for workers: 1 of at least 2; missing: rank 1 (worker w1, "
            "host h1, last heard 2.1 s ago at step 12: its stream broke: reset "
            "by peer), rank 2 (worker w2, host h2, last heard 2.1 s ago at "
            "step 12: nothing heard of it for 1.5s), worker d (host h4, last "
            "heard 0.2 s ago: is draining)");
  EXPECT_THAT(explanation.blocking, SizeIs(3));
  EXPECT_THAT(explanation.reasons,
              ElementsAre("step 12 of 100 is held by 1 member"));
  EXPECT_EQ(explanation.what_unblocks, "1 more worker in the pool");
}

TEST_F(ExplainTest, WorkersOfAQuarantinedHostAreNamed) {
  AddWorker("q", "h1");
  state_.quarantines.push_back(
      {"h1", "h1", absl::UnixEpoch(), "3 of 4 incidents within 10m", At(30)});
  job().max_workers = 4;
  const Explanation explanation = Now();
  ASSERT_THAT(explanation.blocking, SizeIs(1));
  EXPECT_EQ(explanation.blocking[0].worker, "q");
  EXPECT_EQ(explanation.blocking[0].reason,
            "its host is quarantined for 30.0 s more: 3 of 4 incidents within "
            "10m");
}

TEST_F(ExplainTest, AHostThatIsUnfitIsNamedEvenWhereWorkersLack) {
  Lose(1, "cannot read /data/t.txt");
  AddWorker("q", "h1");
  state_.quarantines.push_back({"h1", "h1", absl::UnixEpoch(),
                                "worker q failed: cannot read /data/t.txt",
                                At(30), job().id, 5, /*is_unfit=*/true});
  job().stage = stage::Gathering{};
  job().min_workers = 3;
  const Explanation explanation = Now();
  EXPECT_THAT(explanation.summary,
              HasSubstr("waits for workers: 2 of at least 3"));
  ASSERT_THAT(explanation.blocking, SizeIs(2));
  EXPECT_EQ(explanation.blocking[1].reason,
            "its host is left out of this job, and is tried again in 30.0 s: "
            "worker q failed: cannot read /data/t.txt");
  EXPECT_EQ(explanation.what_unblocks,
            "1 more worker in the pool; or host h1 once it is mended: it is "
            "tried again in 30.0 s. No command lifts that earlier, but a job "
            "that is submitted anew takes the host at once");
}

TEST_F(ExplainTest, AJobThatCannotBeginElseTakesThoseOfAQuarantinedHost) {
  Lose(1, "its stream broke: reset by peer");
  AddWorker("q", "h1");
  state_.quarantines.push_back(
      {"h1", "h1", absl::UnixEpoch(), "3 of 4 incidents within 10m", At(30)});
  job().stage = stage::Gathering{};
  job().min_workers = 3;
  EXPECT_EQ(Now().summary, "has 3 of at most 3 workers, at least 3");
  job().min_workers = 4;
  const Explanation explanation = Now();
  EXPECT_THAT(explanation.summary,
              HasSubstr("waits for workers: 3 of at least 4"));
  EXPECT_THAT(explanation.blocking, SizeIs(1)) << "only the one that is lost";
}

TEST_F(ExplainTest, OfTwoIdleWorkersBehindABrokenLinkOneIsTaken) {
  Lose(1, "evicted");
  Lose(2, "evicted");
  AddWorker("p", "h8").join_order = 1;
  AddWorker("q", "h9").join_order = 2;
  job().links.Remember({"q", "p"}, At(-1));
  job().stage = stage::Gathering{};
  job().min_workers = 3;
  EXPECT_THAT(Now().summary, HasSubstr("2 of at least 3"));
  EXPECT_THAT(Now().summary, HasSubstr("worker q (host h9, last heard 0.2 s "
                                       "ago: its link with worker p"));
}

TEST_F(ExplainTest, AWorkerBehindABrokenLinkIsNamed) {
  Lose(1, "evicted");
  Lose(2, "evicted");
  AddWorker("q", "h9");
  job().links.Remember({"q", "w0"}, At(-1));
  job().stage = stage::Gathering{};
  EXPECT_THAT(Now().summary,
              HasSubstr("worker q (host h9, last heard 0.2 s ago: its link "
                        "with worker w0 is broken; they are kept apart for a "
                        "while)"));
  EXPECT_THAT(Now().summary, HasSubstr("1 of at least 2"));
}

TEST_F(ExplainTest, ASettlingJobTellsWhenItBegins) {
  state_.workers.clear();
  job().members.clear();
  job().stage = stage::Gathering{.since = At(0), .gang_deadline = At(0.4)};
  AddWorker("a", "h1");
  AddWorker("b", "h2");
  const Explanation explanation = Now();
  EXPECT_EQ(explanation.summary, "has 2 of at most 3 workers, at least 2");
  EXPECT_EQ(explanation.what_unblocks,
            "it begins in 0.4 s unless more workers join");
}

TEST_F(ExplainTest, APreparingJobNamesWhoHasNotPrepared) {
  job().stage = stage::Preparing{};
  job().members[0].prepared = PreparedAnswer{};
  job().members[2].prepared = PreparedAnswer{};
  state_.workers.at("w1").phase = v1::PHASE_PREPARE;
  const Explanation explanation = Now();
  EXPECT_EQ(explanation.summary,
            "waits for members to prepare; missing: rank 1 (worker w1, host "
            "h1, last heard 0.2 s ago at step 12: has not prepared for 3.1 s); "
            "needs 2 of 3");
  ASSERT_THAT(explanation.blocking, SizeIs(1));
  EXPECT_EQ(explanation.blocking[0].phase, v1::PHASE_PREPARE);
}

TEST_F(ExplainTest, AFormingJobWaitsForTheJournal) {
  job().stage = stage::Preparing{};
  job().is_assigned = false;
  state_.journal_error = "disk full";
  const Explanation explanation = Now();
  EXPECT_THAT(explanation.summary, HasSubstr("on its way to the journal"));
  EXPECT_THAT(explanation.reasons, ElementsAre("the journal fails: disk full"));
  EXPECT_THAT(explanation.what_unblocks, HasSubstr("free or repair"));
}

TEST_F(ExplainTest, ADiskThatHangsIsTold) {
  job().stage = stage::Preparing{};
  job().is_assigned = false;
  journal_wait_ = kJournalPatience - absl::Milliseconds(1);
  EXPECT_THAT(Now().reasons, IsEmpty());
  EXPECT_EQ(Now().what_unblocks, "the journal's answer");
  journal_wait_ = absl::Milliseconds(3700);
  EXPECT_THAT(Now().reasons,
              ElementsAre("the journal fails: a decision has waited 3s for the "
                          "disk to write the journal"));
  EXPECT_THAT(Now().what_unblocks, HasSubstr("free or repair"));
}

TEST_F(ExplainTest, AJobThatTrainsTellsOfCheckpointsThatFail) {
  job().stage = stage::Running{};
  job().members[1].checkpoint_error = "after step 60: No space left on device";
  EXPECT_THAT(Now().reasons,
              Contains("checkpoints fail: rank 1 (worker w1, host h1) after "
                       "step 60: No space left on device"));
  job().members[1].checkpoint_error.clear();
  EXPECT_THAT(Now().reasons, Not(Contains(HasSubstr("checkpoints"))));
}

TEST_F(ExplainTest, AHaltNamesWhoHasNotAnsweredAndWhoIsLost) {
  Lose(0, "its stream broke: reset by peer");
  job().stage = stage::Halting{.deadline = At(1.2)};
  job().message = "worker w0 was lost";
  job().members[1].halted = HaltedAnswer{12, 12};
  const Explanation explanation = Now();
  EXPECT_EQ(explanation.summary,
            "halts: worker w0 was lost; missing: rank 0 (worker w0, host h0, "
            "last heard 2.1 s ago at step 12: its stream broke: reset by "
            "peer), rank 2 (worker w2, host h2, last heard 0.2 s ago at step "
            "12: has not answered the halt for 3.1 s); needs 2 of 3");
  EXPECT_THAT(explanation.what_unblocks, HasSubstr("in 1.2 s is evicted"));
}

TEST_F(ExplainTest, AJobThatRestsTellsWhenItTriesAgain) {
  job().stage = stage::Gathering{.since = At(0), .rest_deadline = At(3)};
  job().start_time = absl::UnixEpoch();
  job().message = "rests for 5s before the next generation";
  EXPECT_EQ(Now().summary, job().message);
  EXPECT_EQ(Now().what_unblocks,
            "in 3.0 s it tries again; its incidents have the cause");
}

TEST_F(ExplainTest, AWaitForAbsentMembersTellsUntilWhenAndWhatFollows) {
  Lose(1, "its stream broke: reset by peer");
  job().stage = stage::Gathering{};
  job().start_time = absl::UnixEpoch();
  job().message = "waits until 10:05:30 UTC for worker w1 (rank 1)";
  job().absence.holders_deadline = At(90);
  job().figures.set_checkpoint_step(10);
  Explanation explanation = Now();
  EXPECT_EQ(explanation.summary, job().message);
  ASSERT_THAT(explanation.blocking, SizeIs(1));
  EXPECT_EQ(explanation.blocking[0].worker, "w1");
  EXPECT_EQ(explanation.what_unblocks,
            "one of them that comes back; in 90.0 s, or once all of them are "
            "known to have ended, it goes back to the checkpoint of step 10; "
            "ringctl cancel ends it at once");
  job().absence.has_older_copies = true;
  EXPECT_THAT(Now().what_unblocks,
              HasSubstr("known to have ended, it goes on from the older copies "
                        "of others; ringctl"));
  // One has come back: the others have a moment.
  job().absence.return_deadline = At(2);
  explanation = Now();
  EXPECT_EQ(explanation.what_unblocks,
            "their return; it goes on without them in 2.0 s");
}

TEST_F(ExplainTest, SilenceOfMostMembersIsTold) {
  state_.common_silence = {At(-3), At(1)};
  const Explanation explanation = Now();
  ASSERT_THAT(explanation.reasons, SizeIs(1));
  EXPECT_THAT(explanation.reasons[0],
              HasSubstr("most members are silent, since 4.5 s"));
}

TEST_F(ExplainTest, AfterARestartItNamesWhoHasNotComeBack) {
  state_.workers.at("w2").session = 0;
  state_.workers.at("w2").state = v1::WORKER_STATE_DETACHED;
  job().reattach_deadline = At(2.5);
  job().is_recovered = true;
  for (const Stage& each : {Stage(stage::Running{}), Stage(stage::Halting{}),
                            Stage(stage::Stopping{})}) {
    job().stage = each;
    const Explanation explanation = Now();
    EXPECT_EQ(explanation.summary,
              "waits for members to attach again; missing: rank 2 (worker w2, "
              "host h2, not heard since the restart at step 12: has not "
              "attached again since the coordinator's restart); needs 2 of 3");
    EXPECT_THAT(explanation.what_unblocks, HasSubstr("2.5 s left"));
  }
  state_.sessions.clear();
  EXPECT_THAT(Now().what_unblocks,
              HasSubstr("no worker has found the coordinator yet"));
}

TEST_F(ExplainTest, ABadLinkHasBothItsEnds) {
  job().suspicions.reports.push_back({"w0", 0, 2, "connection reset"});
  job().suspicions.deadline = At(0.7);
  const Explanation explanation = Now();
  EXPECT_THAT(explanation.reasons,
              ElementsAre("bad link: rank 0 (worker w0) reports rank 2 (worker "
                          "w2, host h2): connection reset"));
  EXPECT_THAT(explanation.what_unblocks, HasSubstr("in 0.7 s"));
}

TEST_F(ExplainTest, AStuckJobNamesWhoWaitsForNobody) {
  job().last_progress = At(-9);
  state_.workers.at("w0").waiting_for_rank = 1;
  state_.workers.at("w2").waiting_for_rank = 1;
  const Explanation explanation = Now();
  EXPECT_THAT(explanation.reasons,
              Contains(HasSubstr("no member has made progress for 9.0 s")));
  ASSERT_THAT(explanation.blocking, SizeIs(1));
  EXPECT_EQ(explanation.blocking[0].worker, "w1");
}

TEST_F(ExplainTest, ASmallJobTellsThatItWouldGrow) {
  job().max_workers = 5;
  EXPECT_THAT(Now().reasons, Contains(HasSubstr("takes up to 5 workers, and "
                                                "has 3")));
}

TEST_F(ExplainTest, AJobOfCommandsTellsHowTheyGoOn) {
  job().runs_commands = true;
  job().message = "all 3 ranks attached again";
  EXPECT_THAT(Now().reasons, IsEmpty());
  job().command_loss = "rank 1 was killed; 2 of 3 ranks go on";
  job().max_workers = 5;
  EXPECT_THAT(
      Now().reasons,
      ElementsAre("rank 1 was killed; 2 of 3 ranks go on",
                  "takes up to 5 workers, and has 3: others take part when its "
                  "commands begin anew, or when one that is lost is replaced"));
}

TEST_F(ExplainTest, AGrowingJobTellsOfIt) {
  job().stage = stage::Running{.growth_deadline = At(0.4)};
  EXPECT_THAT(Now().reasons, ElementsAre("idle workers join in 0.4 s"));
  job().growth.paused_generation = 1;
  EXPECT_THAT(Now().reasons, ElementsAre(HasSubstr("asked to pause")));
}

TEST_F(ExplainTest, ARecoveringJobMakesItsFirstStep) {
  job().incidents.emplace_back();
  EXPECT_EQ(Now().summary,
            "has started generation 1 and makes its first step, for 3.1 s");
}

TEST_F(ExplainTest, AStoppingJobNamesWhoGoesOn) {
  job().stage = stage::Stopping{At(8)};
  job().cancel_reason = "enough";
  job().members[0].finished = FinishedAnswer{};
  const Explanation explanation = Now();
  EXPECT_THAT(explanation.summary, HasSubstr("stops: enough; missing: rank 1"));
  EXPECT_THAT(explanation.blocking, SizeIs(2));
  EXPECT_THAT(explanation.what_unblocks, HasSubstr("cut short in 8.0 s"));
}

TEST_F(ExplainTest, AWaitForTheJournalIsTold) {
  job().stage = stage::Halting{};
  job().waits_for_journal = true;
  job().message = "halted after step 12; waits for the journal: disk full";
  for (Member& member : job().members) member.halted = HaltedAnswer{12, 12};
  state_.journal_error = "disk full";
  const Explanation explanation = Now();
  EXPECT_EQ(explanation.summary, job().message);
  EXPECT_THAT(explanation.what_unblocks, HasSubstr("free or repair"));
}

TEST_F(ExplainTest, AnEndIsTold) {
  job().ending.emplace();
  job().ending->state = v1::JOB_STATE_SUCCEEDED;
  EXPECT_EQ(Now().summary, "its end as SUCCEEDED is on its way to the journal");
  job().ending.reset();
  job().stage = stage::Ended{v1::JOB_STATE_FAILED};
  job().message = "1 worker is left of at least 2";
  EXPECT_EQ(Now().summary, "has ended: 1 worker is left of at least 2");
}

TEST_F(ExplainTest, AnEndlessListIsCut) {
  job().stage = stage::Halting{};
  for (int rank = 3; rank < 100; ++rank) AddMember(rank);
  const Explanation explanation = Now();
  EXPECT_THAT(explanation.blocking, SizeIs(kMaxBlockingWorkers));
  EXPECT_THAT(explanation.summary, HasSubstr(" and 92 more; needs 2 of 100"));
}

}  // namespace
}  // namespace ringmaster::coordinator
