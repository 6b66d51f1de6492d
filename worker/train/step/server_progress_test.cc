// The trainers of a job with parameter servers report their progress, and the
// shards that they hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/fail_point/fail_point.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/train/testing/server_job.h"
#include "worker/train/testing/trainer_workers.h"

namespace ringmaster {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::TrainProgram Program(int servers) {
  v1::TrainProgram program = SmallProgram(kEndless);
  v1::ParameterServerSpec& spec = *program.mutable_parameter_server();
  if (servers == 0) {
    spec.set_colocated(true);
  } else {
    spec.set_servers(servers);
  }
  return program;
}

// It polls, since figures are not events.
void Await(const std::function<bool()>& is_so) {
  const MonotonicTime end = Clock::Real().Now() + absl::Seconds(30);
  while (!is_so()) {
    ASSERT_LT(Clock::Real().Now(), end);
    std::this_thread::yield();
  }
}

class ServerProgressTest : public testing::Test {
 protected:
  ~ServerProgressTest() override { FailPoint::DisarmAll(); }
};

TEST_F(ServerProgressTest, TellsOfCopiesAndWhomEachWaitsFor) {
  ServerJob job({.workers = 2, .servers = 1});
  const int server = job.server(0);
  const auto progress = [&](int member) {
    return job.trainer(member).progress();
  };
  FailPoint::Arm("train.load", FailPoint::Action::kHang);
  job.RunGeneration(Program(1), [&] {
    Await([] { return FailPoint::HangingCount("train.load") == 1; });
    Await([&] { return progress(server).waiting_for_rank == 0; });
    Await([&] { return progress(1).waiting_for_rank == server; });
    EXPECT_EQ(progress(server).phase, TrainPhase::kTransfer);
    EXPECT_EQ(progress(1).phase, TrainPhase::kTransfer);
    EXPECT_EQ(progress(0).waiting_for_rank, -1) << "it hangs by itself";
    FailPoint::DisarmAll();
    Await([&] { return progress(server).applied_step >= 5; });
    EXPECT_EQ(progress(server).phase, TrainPhase::kStep);
    const int64_t taken = progress(server).collective_sequence;
    EXPECT_GT(taken, 0);
    Await([&] { return progress(server).collective_sequence > taken; });
    for (int member = 0; member < job.members(); ++member)
      job.trainer(member).Abort(job.generation(), "the test has seen it");
  });
  EXPECT_THAT(progress(server).held_shards, SizeIs(1));
}

TEST_F(ServerProgressTest, AServerThatHangsWaitsForNobody) {
  ServerJob job({.workers = 2, .servers = 1});
  const int server = job.server(0);
  FailPoint::Arm("shard_host.update", FailPoint::Action::kHang, /*at_pass=*/9);
  job.RunGeneration(Program(1), [&] {
    Await([] { return FailPoint::HangingCount("shard_host.update") == 1; });
    for (const int worker : {0, 1}) {
      Await([&] {
        return job.trainer(worker).progress().waiting_for_rank == server;
      });
    }
    EXPECT_EQ(job.trainer(server).progress().waiting_for_rank, -1);
    FailPoint::DisarmAll();
    for (int member = 0; member < job.members(); ++member)
      job.trainer(member).Abort(job.generation(), "the test has seen it");
  });
}

TEST_F(ServerProgressTest, CountsHowStaleItsAnswersWere) {
  for (const int servers : {0, 1}) {
    v1::TrainProgram program = Program(servers);
    program.mutable_parameter_server()->set_consistency(v1::CONSISTENCY_ASYNC);
    ServerJob job({.workers = 2, .servers = servers});
    job.RunUntilStep(program, /*member=*/0, 20);
    const int holder = servers == 0 ? 0 : job.server(0);
    EXPECT_THAT(job.trainer(holder).progress().totals.staleness(),
                Contains(Gt(0)));
  }
}

TEST_F(ServerProgressTest, AWorkersOwnHostSaysWhatItFailedOf) {
  ServerJob job({.workers = 1, .servers = 0});
  FailPoint::Arm("shard_host.update", FailPoint::Action::kError,
                 /*at_pass=*/9);
  const auto outcomes = job.RunGeneration(Program(0), [] {});
  EXPECT_THAT(std::string(outcomes[0].status.message()),
              HasSubstr("fail point shard_host.update"));
}

// Rank 1 of two workers, after they have trained with a shard each.
class HeldShardsTest : public ServerProgressTest {
 protected:
  HeldShardsTest() {
    // Then all buckets are at one step.
    job_.RunGeneration(program_, [this] {
      Await([this] { return job_.trainer(0).progress().applied_step >= 5; });
      job_.trainer(0).RequestStop();
    });
    assignment_.generation = job_.generation() + 1;
    assignment_.job_id = "job-1";
    assignment_.rank = assignment_.data_index = 1;
    assignment_.world_size = 2;
    assignment_.resume_step = job_.resume_step();
    assignment_.shard_placements.hosts = {{0, "127.0.0.1:1"},
                                          {1, "127.0.0.1:2"}};
    assignment_.shard_placements.shards = {{0, -1, 0}, {1, -1, 1}};
  }

  absl::Status Prepare() {
    return job_.trainer(1).Prepare(SpecOf(program_), assignment_).status();
  }
  std::vector<HeldShard> held() {
    return job_.trainer(1).progress().held_shards;
  }

  const v1::TrainProgram program_ = Program(0);
  ServerJob job_{{.workers = 2, .servers = 0}};
  RankAssignment assignment_;
};

TEST_F(HeldShardsTest, AreThoseOfTheResumeStep) {
  ASSERT_THAT(held(), SizeIs(1));
  assignment_.resume_step = held()[0].complete_step - 1;
  const absl::Status prepared = Prepare();
  ASSERT_TRUE(prepared.ok()) << prepared;
  EXPECT_THAT(held(), ElementsAre(HeldShard{1, assignment_.resume_step}));
}

TEST_F(HeldShardsTest, AreThoseOfTheResumeStepWhateverFailsThen) {
  assignment_.resume_step = held()[0].complete_step - 1;
  assignment_.shard_placements.shards.resize(1000, {0, -1, 0});
  EXPECT_FALSE(Prepare().ok()) << "there are fewer buckets";
  EXPECT_THAT(held(), ElementsAre(HeldShard{1, assignment_.resume_step}));
}

TEST_F(HeldShardsTest, AreForgottenByWhoIsNoHolderAnyMore) {
  assignment_.shard_placements.hosts.pop_back();
  assignment_.shard_placements.shards = {{0, -1, 0}, {0, -1, 0}};
  const absl::Status prepared = Prepare();
  ASSERT_TRUE(prepared.ok()) << prepared;
  EXPECT_THAT(held(), IsEmpty());
}

TEST_F(HeldShardsTest, AreKeptForAHolderThatHasYetToLoadThem) {
  assignment_.shard_placements.shards = {{0, -1, 0}, {0, -1, 0}};
  const absl::Status prepared = Prepare();
  ASSERT_TRUE(prepared.ok()) << prepared;
  EXPECT_THAT(held(), ElementsAre(HeldShard{1, assignment_.resume_step}));
}

TEST_F(HeldShardsTest, AreForgottenWhereTheyAreMadeAnew) {
  assignment_.shard_placements.shards = {{0, -1, -1}, {1, -1, -1}};
  const absl::Status prepared = Prepare();
  ASSERT_TRUE(prepared.ok()) << prepared;
  EXPECT_THAT(held(), IsEmpty());
}

}  // namespace
}  // namespace ringmaster
