#include "server/coordinator/core/placement/host_room.h"

#include <string>

#include "common/protocol/proto_time.h"
#include "gtest/gtest.h"
#include "server/coordinator/core/placement/forecast.h"
#include "server/coordinator/core/placement/idle_pool.h"

namespace ringmaster::coordinator {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

class HostRoomTest : public ::testing::Test {
 protected:
  // Two hosts of 16 GiB with `each` idle workers.
  void AddHosts(int each) {
    for (int i = 0; i < 2 * each; ++i) {
      const std::string name = "w" + std::to_string(i);
      Worker& worker = state_.workers[name];
      worker.name = name;
      worker.host = worker.host_key = i < each ? "h0" : "h1";
      worker.role = v1::ROLE_WORKER;
      worker.session = worker.join_order = state_.workers.size();
      worker.memory_bytes = worker.host_memory_bytes = 16 * kGiB;
    }
  }
  Job& Add(int64_t number, int min) {
    Job& job = state_.jobs[number];
    job.number = number;
    job.id = "j-" + std::to_string(number);
    job.min_workers = job.max_workers = min;
    return job;
  }
  void Seat(const char* name, const Job& job) {
    state_.workers[name].job_id = job.id;
    state_.workers[name].state = v1::WORKER_STATE_ASSIGNED;
    state_.active_jobs.insert(job.number);
  }
  int Count(const Job& job) const {
    return IdlePool(state_, job).Count(Hosts::kAll);
  }

  State state_;
};

TEST_F(HostRoomTest, AJobThatIsSpreadTakesOneOfEachHost) {
  AddHosts(2);
  Job& job = Add(1, 2);
  EXPECT_EQ(Count(job), 4);
  job.needs.one_per_host = true;
  EXPECT_EQ(Count(job), 2);
  EXPECT_TRUE(CanBegin(state_, job));
  EXPECT_EQ(NeededText(job), "2 workers on a host each");
  job.min_workers = 3;
  EXPECT_FALSE(CouldBegin(state_, job));
  EXPECT_FALSE(ForecastStart(state_, job).until_start.has_value());
  Seat("w0", job);
  EXPECT_EQ(Count(job), 1);
  EXPECT_EQ(NoRoomText(state_, job, state_.workers["w1"]),
            "is on the host of worker w0, which the job has");
  EXPECT_EQ(NoRoomText(state_, job, state_.workers["w2"]), "");
  // Whoever takes over from one that leaves may be on its host.
  state_.workers["w0"].is_let_go = true;
  EXPECT_EQ(Count(job), 2);
}

TEST_F(HostRoomTest, MemoryOfAHostIsSharedByThoseWhoSayWhatTheyNeed) {
  AddHosts(4);
  Job& job = Add(1, 4);
  job.needs.memory_bytes = 6 * kGiB;
  EXPECT_EQ(Count(job), 4);  // two on each host
  EXPECT_TRUE(CouldBegin(state_, job));
  EXPECT_EQ(NeededText(job), "4 workers with 6GiB of memory");
  Job& other = Add(2, 1);
  Seat("w0", other);
  EXPECT_EQ(Count(job), 4);
  other.needs.memory_bytes = 5 * kGiB;
  EXPECT_EQ(Count(job), 3);
  EXPECT_FALSE(CanBegin(state_, job));
  other.needs.memory_bytes = 12 * kGiB;
  EXPECT_EQ(Count(job), 2);
  EXPECT_EQ(NoRoomText(state_, job, state_.workers["w1"]),
            "is on a host that has 4GiB of its 16GiB left");
  // What a member of a giver leaves behind is free.
  HostRoom room = HostRoom::Left(state_, job);
  EXPECT_FALSE(room.Take(state_.workers["w0"]));
  EXPECT_TRUE(room.Take(state_.workers["w0"], &other));
  EXPECT_TRUE(CouldBegin(state_, job));
}

TEST_F(HostRoomTest, AForecastCountsTheMemoryOfThoseWhoAreThere) {
  AddHosts(2);
  Job& runs = Add(1, 1);
  runs.needs.memory_bytes = 12 * kGiB;
  runs.state = v1::JOB_STATE_RUNNING;
  runs.total_steps = 100;
  runs.best_step = 40;
  *runs.figures.mutable_step_duration() = ToProto(absl::Seconds(1));
  Seat("w0", runs);
  runs.members.emplace_back().identity.worker = "w0";
  runs.members.back().identity.role = v1::ROLE_WORKER;
  Job& job = Add(2, 1);
  job.needs.memory_bytes = 6 * kGiB;
  EXPECT_EQ(ForecastStart(state_, job).until_start, absl::ZeroDuration());
  job.min_workers = 3;  // two on the other host
  EXPECT_EQ(ForecastStart(state_, job).until_start, absl::Seconds(60));
  job.min_workers = 5;
  EXPECT_FALSE(ForecastStart(state_, job).until_start.has_value());
  runs.can_end_early = true;
  job.min_workers = 3;
  EXPECT_EQ(ForecastStart(state_, job).why_unknown,
            "nobody can tell how long jobs on h0 take");
}

TEST_F(HostRoomTest, AContainerMayHaveLessThanItsHost) {
  AddHosts(1);
  Job& job = Add(1, 1);
  job.needs.memory_bytes = 6 * kGiB;
  state_.workers["w0"].memory_bytes = 4 * kGiB;
  EXPECT_FALSE(IsFitFor(job, state_.workers["w0"]));
  EXPECT_EQ(Count(job), 1);
  // A release that does not tell.
  state_.workers["w1"].memory_bytes = state_.workers["w1"].host_memory_bytes =
      0;
  EXPECT_EQ(Count(job), 0);
}

TEST(MemoryTextTest, HasTheUnitsOfJobs) {
  EXPECT_EQ(MemoryText(8 * kGiB), "8GiB");
  EXPECT_EQ(MemoryText(kGiB * 3 / 2), "1.5GiB");
  EXPECT_EQ(MemoryText(300 << 20), "300MiB");
}

}  // namespace
}  // namespace ringmaster::coordinator
