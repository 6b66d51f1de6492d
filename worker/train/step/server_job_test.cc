// Whole trainers of a job with parameter servers as threads of one process: they
// are interrupted, lose members, and go on.
#include "worker/train/testing/server_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/status/exit_code.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/train/testing/trainer_workers.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSteps = 60;

// Gives the same bits however often it is interrupted.
v1::TrainProgram Program(int servers) {
  v1::TrainProgram program = SmallProgram(kSteps);
  v1::ParameterServerSpec& spec = *program.mutable_parameter_server();
  if (servers == 0) {
    spec.set_colocated(true);
  } else {
    spec.set_servers(servers);
  }
  spec.set_deterministic(true);
  return program;
}

void ExpectAllFinished(const std::vector<RunOutcome>& outcomes) {
  for (const RunOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kFinished) << outcome.status;
    EXPECT_EQ(outcome.complete_step, kSteps);
  }
}

uint64_t HashWithoutInterruption(const ServerJob::Options& options,
                                 const v1::TrainProgram& program) {
  ServerJob job(options);
  const auto outcomes = job.RunGeneration(program, [] {});
  ExpectAllFinished(outcomes);
  return outcomes[0].parameters_hash;
}

TEST(ServerJobTest, GoesOnAfterAHaltWithoutLosingABit) {
  for (const int servers : {0, 1, 3}) {
    const ServerJob::Options options = {.workers = 2, .servers = servers};
    const v1::TrainProgram program = Program(servers);
    const uint64_t expected = HashWithoutInterruption(options, program);
    ServerJob job(options);
    for (const int64_t step : {5, 11, 30}) {
      const auto outcomes = job.RunUntilStep(program, /*member=*/1, step);
      for (const RunOutcome& outcome : outcomes)
        EXPECT_FALSE(outcome.status.ok());
      EXPECT_GE(job.resume_step(), step);
    }
    const auto outcomes = job.RunGeneration(program, [] {});
    ExpectAllFinished(outcomes);
    EXPECT_EQ(outcomes[0].parameters_hash, expected) << servers << " servers";
    EXPECT_EQ(outcomes[1].parameters_hash, expected);
  }
}

TEST(ServerJobTest, WithCopiesAnyHoldersLossCostsNoStep) {
  for (const int servers : {0, 2, 3}) {
    const ServerJob::Options options = {
        .workers = 2, .servers = servers, .replicas = 1};
    const v1::TrainProgram program = Program(servers);
    const uint64_t expected = HashWithoutInterruption(options, program);
    const int holders = servers == 0 ? options.workers : servers;
    ServerJob job(options);
    for (int i = 0; i < holders; ++i) {
      job.RunUntilStep(program, /*member=*/0, 5 + 10 * i);
      job.Replace(servers == 0 ? i : job.server(i));
      EXPECT_GE(job.resume_step(), 5 + 10 * i);
    }
    const auto outcomes = job.RunGeneration(program, [] {});
    ExpectAllFinished(outcomes);
    EXPECT_EQ(outcomes[0].parameters_hash, expected) << servers << " servers";
  }
}

TEST(ServerJobTest, AHolderThatStaysAwayIsReplacedByTheOthers) {
  const ServerJob::Options options = {
      .workers = 2, .servers = 3, .replicas = 1};
  const v1::TrainProgram program = Program(3);
  ServerJob job(options);
  job.RunUntilStep(program, /*member=*/0, 5);
  job.Remove(job.server(1));
  EXPECT_GE(job.resume_step(), 5);
  job.RunUntilStep(program, /*member=*/0, 20);
  job.Remove(job.server(0));
  EXPECT_GE(job.resume_step(), 20);
  const auto outcomes = job.RunGeneration(program, [] {});
  EXPECT_EQ(outcomes[0].kind, RunOutcome::Kind::kFinished)
      << outcomes[0].status;
  EXPECT_EQ(outcomes[0].parameters_hash,
            HashWithoutInterruption(options, program));
}

TEST(ServerJobTest, WithoutCopiesAHoldersLossBeginsAnew) {
  const ServerJob::Options options = {.workers = 2, .servers = 2};
  const v1::TrainProgram program = Program(2);
  ServerJob job(options);
  job.RunUntilStep(program, /*member=*/0, 5);
  job.Replace(job.server(0));
  EXPECT_EQ(job.resume_step(), 0);
  const auto outcomes = job.RunGeneration(program, [] {});
  ExpectAllFinished(outcomes);
  EXPECT_EQ(outcomes[0].parameters_hash,
            HashWithoutInterruption(options, program));
}

TEST(ServerJobTest, ANewWorkerFetchesWhatTheServersHold) {
  const ServerJob::Options options = {.workers = 2, .servers = 1};
  const v1::TrainProgram program = Program(1);
  ServerJob job(options);
  job.RunUntilStep(program, /*member=*/0, 5);
  job.Replace(0);
  job.RunUntilStep(program, /*member=*/0, 20);
  job.Replace(1);
  const auto outcomes = job.RunGeneration(program, [] {});
  ExpectAllFinished(outcomes);
  EXPECT_EQ(outcomes[1].parameters_hash,
            HashWithoutInterruption(options, program));
}

class CheckpointOfServersTest : public testing::Test {
 protected:
  CheckpointOfServersTest()
      : directory_(
            std::filesystem::path(testing::TempDir()) /
            testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(directory_);
  }

  v1::TrainProgram Checkpointed(int servers, int64_t every_steps) {
    v1::TrainProgram program = Program(servers);
    v1::CheckpointSpec& checkpoint = *program.mutable_checkpoint();
    checkpoint.set_directory(directory_.string());
    checkpoint.set_every_steps(every_steps);
    checkpoint.set_keep(2);
    checkpoint.set_resume(true);
    return program;
  }

  const std::filesystem::path directory_;
};

TEST_F(CheckpointOfServersTest, HasTheMomentsToo) {
  const ServerJob::Options options = {.workers = 2, .servers = 2};
  const uint64_t expected = HashWithoutInterruption(options, Program(2));
  const v1::TrainProgram program = Checkpointed(2, /*every_steps=*/10);
  ServerJob job(options);
  job.RunUntilStep(program, /*member=*/0, 25);
  for (int member = 0; member < job.members(); ++member) job.Replace(member);
  EXPECT_EQ(job.resume_step(), 0);
  const auto outcomes = job.RunGeneration(program, [] {});
  ExpectAllFinished(outcomes);
  EXPECT_EQ(outcomes[0].parameters_hash, expected);
  EXPECT_TRUE(std::filesystem::exists(directory_ / "step-000000060"))
      << directory_;
}

TEST_F(CheckpointOfServersTest, StartsAJobWithAnotherNumberOfServers) {
  const uint64_t expected =
      HashWithoutInterruption({.workers = 2, .servers = 2}, Program(2));
  ServerJob first({.workers = 2, .servers = 2});
  first.RunUntilStep(Checkpointed(2, 10), /*member=*/0, 25);
  ServerJob second({.workers = 2, .servers = 3});
  const auto outcomes = second.RunGeneration(Checkpointed(3, 10), [] {});
  ExpectAllFinished(outcomes);
  EXPECT_EQ(outcomes[0].parameters_hash, expected);
}

TEST_F(CheckpointOfServersTest, StartsWorkersThatRunAheadOfEachOther) {
  for (const v1::Consistency consistency :
       {v1::CONSISTENCY_SSP, v1::CONSISTENCY_ASYNC}) {
    v1::TrainProgram program = Checkpointed(2, /*every_steps=*/10);
    program.mutable_parameter_server()->set_deterministic(false);
    program.mutable_parameter_server()->set_consistency(consistency);
    program.mutable_parameter_server()->set_staleness(2);
    ServerJob job({.workers = 2, .servers = 2, .replicas = 1});
    job.RunUntilStep(program, /*member=*/0, 25);
    for (int member = 0; member < job.members(); ++member) job.Replace(member);
    const auto outcomes = job.RunGeneration(program, [] {});
    for (const RunOutcome& outcome : outcomes)
      EXPECT_EQ(outcome.kind, RunOutcome::Kind::kFinished) << outcome.status;
    EXPECT_EQ(outcomes[0].parameters_hash, outcomes[1].parameters_hash);
    std::filesystem::remove_all(directory_);
  }
}

class RelaxedJobTest : public testing::TestWithParam<v1::Consistency> {};

TEST_P(RelaxedJobTest, GoesOnAfterTheLossOfAServer) {
  v1::TrainProgram program = Program(2);
  program.set_steps(150);
  program.mutable_parameter_server()->set_deterministic(false);
  program.mutable_parameter_server()->set_consistency(GetParam());
  program.mutable_parameter_server()->set_staleness(2);
  ServerJob job({.workers = 2, .servers = 2, .replicas = 1});
  job.RunUntilStep(program, /*member=*/0, 60);
  job.Replace(job.server(1));
  EXPECT_GT(job.resume_step(), 0);
  const auto outcomes = job.RunGeneration(program, [] {});
  for (const RunOutcome& outcome : outcomes)
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kFinished) << outcome.status;
  EXPECT_EQ(outcomes[0].parameters_hash, outcomes[1].parameters_hash);
}

// Workers that run ahead of each other meet at each evaluation.
TEST_P(RelaxedJobTest, EndsEarlyWhereAllAgree) {
  v1::TrainProgram program = Program(2);
  program.mutable_parameter_server()->set_deterministic(false);
  program.mutable_parameter_server()->set_consistency(GetParam());
  program.mutable_parameter_server()->set_staleness(2);
  program.set_evaluate_every(5);
  program.mutable_early_stop()->set_patience(2);
  program.mutable_early_stop()->set_min_delta(100);
  ServerJob job({.workers = 3, .servers = 2, .replicas = 1});
  const auto outcomes = job.RunGeneration(program, [] {});
  for (const RunOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kFinished) << outcome.status;
    EXPECT_EQ(outcome.complete_step, 15);
  }
}

INSTANTIATE_TEST_SUITE_P(Consistencies, RelaxedJobTest,
                         testing::Values(v1::CONSISTENCY_BSP,
                                         v1::CONSISTENCY_SSP,
                                         v1::CONSISTENCY_ASYNC));

TEST(ServerJobTest, StopsAndDrainsWhereAllAgree) {
  for (const bool is_drain : {false, true}) {
    v1::TrainProgram program = Program(2);
    program.set_steps(kEndless);
    ServerJob job({.workers = 2, .servers = 2, .replicas = 1});
    const auto outcomes = job.RunGeneration(program, [&] {
      while (job.trainer(0).progress().applied_step < 5) {
      }
      if (is_drain) {
        job.trainer(job.server(1)).RequestDrain();
      } else {
        job.trainer(0).RequestStop();
      }
    });
    for (const RunOutcome& outcome : outcomes) {
      EXPECT_EQ(outcome.kind, is_drain ? RunOutcome::Kind::kDrained
                                       : RunOutcome::Kind::kStopped)
          << outcome.status;
      EXPECT_EQ(outcome.complete_step, outcomes[0].complete_step);
    }
  }
}

TEST(ServerJobTest, MoreShardsThanBucketsIsOneClearError) {
  v1::TrainProgram program = Program(2);
  program.set_bucket_bytes(1 << 30);
  TrainerWorkers workers(1);
  RankAssignment assignment = workers.Assign(1, {0}, 0, 0);
  assignment.shard_placements.hosts = {{1, "127.0.0.1:1"}, {2, "127.0.0.1:2"}};
  assignment.shard_placements.shards = {{1, -1, -1}, {2, -1, -1}};
  const auto agreement =
      workers.trainer(0).Prepare(SpecOf(program), assignment);
  EXPECT_EQ(ExitCodeOf(agreement.status()), ExitCode::kUsage)
      << agreement.status();
  EXPECT_THAT(std::string(agreement.status().message()),
              HasSubstr("train.bucket_bytes"));
}

TEST(ServerJobTest, AServerRefusesAJobWithoutServers) {
  ServerJob job({.workers = 1, .servers = 1});
  RankAssignment assignment;
  assignment.rank = 1;
  const auto agreement =
      job.trainer(job.server(0)).Prepare(SpecOf(SmallProgram(1)), assignment);
  EXPECT_EQ(ExitCodeOf(agreement.status()), ExitCode::kUsage);
  EXPECT_THAT(std::string(agreement.status().message()),
              HasSubstr("has no parameter servers"));
}

TEST(ServerJobTest, ClippingNeedsEverybodysGradient) {
  v1::TrainProgram program = Program(1);
  program.mutable_optimizer()->mutable_adamw()->set_clip_norm(1);
  program.mutable_parameter_server()->set_consistency(v1::CONSISTENCY_ASYNC);
  TrainerWorkers workers(1);
  const auto agreement =
      workers.trainer(0).Prepare(SpecOf(program), workers.Assign(1, {0}, 0, 0));
  EXPECT_EQ(ExitCodeOf(agreement.status()), ExitCode::kUsage);
  EXPECT_THAT(std::string(agreement.status().message()),
              HasSubstr("clip_norm"));
}

TEST(ServerJobTest, WhoIsToldOfNoHoldersCannotTakePart) {
  TrainerWorkers workers(1);
  const auto agreement = workers.trainer(0).Prepare(
      SpecOf(Program(1)), workers.Assign(1, {0}, 0, 0));
  EXPECT_EQ(ExitCodeOf(agreement.status()), ExitCode::kUsage);
  EXPECT_THAT(std::string(agreement.status().message()),
              HasSubstr("nobody who holds"));
}

}  // namespace
}  // namespace ringmaster
