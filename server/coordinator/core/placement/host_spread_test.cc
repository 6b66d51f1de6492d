#include "server/coordinator/core/placement/host_spread.h"

#include <string>

#include "gtest/gtest.h"
#include "server/coordinator/core/placement/forecast.h"
#include "server/coordinator/core/placement/gifts.h"
#include "server/coordinator/core/placement/idle_pool.h"
#include "server/coordinator/core/state/config.h"

namespace ringmaster::coordinator {
namespace {

class HostSpreadTest : public ::testing::Test {
 protected:
  // Two hosts with `each` idle workers: the first are w0 to w(each-1).
  void AddHosts(int each) {
    for (int i = 0; i < 2 * each; ++i) {
      const std::string name = "w" + std::to_string(i);
      Worker& worker = state_.workers[name];
      worker.name = name;
      worker.host = worker.host_key = i < each ? "h0" : "h1";
      worker.session = worker.join_order = state_.workers.size();
      worker.protocol = kLeaveProtocol;
    }
  }
  Job& Add(int64_t number, int min, int max) {
    Job& job = state_.jobs[number];
    job.number = number;
    job.id = "j-" + std::to_string(number);
    job.min_workers = min;
    job.max_workers = max;
    return job;
  }
  void Seat(const std::string& name, Job& job) {
    Worker& worker = state_.workers[name];
    worker.job_id = job.id;
    worker.state = v1::WORKER_STATE_ASSIGNED;
    Member& member = job.members.emplace_back();
    member.identity.worker = name;
    member.identity.role = v1::ROLE_WORKER;
    job.stage = stage::Running{};
    job.start_time = absl::UnixEpoch();
    state_.active_jobs.insert(job.number);
  }
  int Count(const Job& job) const {
    return IdlePool(state_, job).Count(Hosts::kAll);
  }

  State state_;
};

TEST_F(HostSpreadTest, AJobTakesOneWorkerOfEachHost) {
  AddHosts(2);
  Job& job = Add(1, 2, 2);
  EXPECT_EQ(Count(job), 4);
  job.needs.one_per_host = true;
  EXPECT_EQ(Count(job), 2);
  EXPECT_EQ(IdlePool(state_, job).Packed(Hosts::kAll).size(), 2u);
  EXPECT_TRUE(CanBegin(state_, job));
  EXPECT_EQ(NeededText(job), "2 workers on a host each");
  EXPECT_EQ(ForecastStart(state_, job).until_start, absl::ZeroDuration());
  job.min_workers = 3;
  EXPECT_FALSE(CouldBegin(state_, job));
  EXPECT_FALSE(ForecastStart(state_, job).until_start.has_value());
}

TEST_F(HostSpreadTest, OneThatLeavesMakesRoomForWhoTakesOver) {
  AddHosts(2);
  Job& job = Add(1, 1, 2);
  job.needs.one_per_host = true;
  Seat("w0", job);
  EXPECT_EQ(Count(job), 1);
  EXPECT_FALSE(
      HostSpread::Beside(state_, job).HasRoomFor(state_.workers["w1"]));
  for (bool Worker::*const leaves : {&Worker::is_let_go, &Worker::has_failed}) {
    state_.workers["w0"].*leaves = true;
    EXPECT_EQ(Count(job), 2);
    state_.workers["w0"].*leaves = false;
  }
}

TEST_F(HostSpreadTest, TheWorkerThatHasPreparedIsTheOneOfItsHost) {
  AddHosts(2);
  Job& job = Add(1, 1, 2);
  job.needs.one_per_host = true;
  state_.workers["w1"].rehearsal = Rehearsal();
  state_.workers["w1"].rehearsal->job_id = job.id;
  state_.workers["w1"].rehearsal->is_ready = true;
  const auto packed = IdlePool(state_, job).Packed(Hosts::kAll);
  ASSERT_EQ(packed.size(), 2u);
  EXPECT_EQ(packed[0]->name, "w1");
  EXPECT_EQ(packed[1]->name, "w2");
}

class GiftTest : public HostSpreadTest {
 protected:
  // Two jobs have a worker on each of two hosts, and one that is spread comes.
  GiftTest() {
    AddHosts(2);
    for (const char* name : {"w0", "w2"}) Seat(name, first_);
    for (const char* name : {"w1", "w3"}) Seat(name, second_);
    Job& taker = Add(3, 2, 2);
    taker.needs.one_per_host = true;
    taker.priority = 1;
    state_.first_lacking = 3;
  }

  Job& first_ = Add(1, 1, 2);
  Job& second_ = Add(2, 1, 2);
};

TEST_F(GiftTest, EachJobGivesTheWorkerOfAnotherHost) {
  const auto gifts = Gifts(state_);
  ASSERT_EQ(gifts.size(), 2u);
  EXPECT_NE(gifts[0].giver, gifts[1].giver);
  EXPECT_NE(gifts[0].worker->host_key, gifts[1].worker->host_key);
}

TEST_F(GiftTest, AGiverThatCannotGiveKeepsNobodyElseFromIt) {
  first_.min_workers = second_.min_workers = 2;
  second_.can_go_on_later = true;
  const auto gifts = Gifts(state_);
  ASSERT_EQ(gifts.size(), 2u);
  EXPECT_EQ(gifts[0].giver, &second_);
}

TEST(WorkerNeedsTest, MemoryIsWhatAProcessMayUse) {
  Job job;
  Worker worker;
  worker.memory_bytes = int64_t{4} << 30;
  EXPECT_TRUE(IsFitFor(job, worker));
  job.needs.memory_bytes = int64_t{4} << 30;
  EXPECT_TRUE(IsFitFor(job, worker));
  EXPECT_EQ(FitText(job), " with 4.00GiB of memory");
  ++job.needs.memory_bytes;
  EXPECT_FALSE(IsFitFor(job, worker));
  // A release that does not tell.
  worker.memory_bytes = 0;
  EXPECT_FALSE(IsFitFor(job, worker));
}

}  // namespace
}  // namespace ringmaster::coordinator
