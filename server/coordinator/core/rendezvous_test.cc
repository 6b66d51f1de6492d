#include "server/coordinator/core/rendezvous.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace ringmaster::coordinator {
namespace {

TEST(RendezvousTest, NamesAreInTheirNaturalOrder) {
  const std::vector<std::string> sorted = {"",
                                           "1",
                                           "a",
                                           "a1",
                                           "a1b",
                                           "a01c",
                                           "a2",
                                           "a9",
                                           "a10",
                                           "a10a",
                                           "a99999999999999999999",
                                           "a100000000000000000000",
                                           "b0",
                                           "w-2",
                                           "w-10",
                                           "w_1"};
  for (size_t i = 0; i < sorted.size(); ++i) {
    for (size_t j = 0; j < sorted.size(); ++j) {
      EXPECT_EQ(NaturalLess(sorted[i], sorted[j]), i < j)
          << sorted[i] << " < " << sorted[j];
    }
  }
}

TEST(RendezvousTest, LeadingZerosAloneStillMakeADifference) {
  EXPECT_NE(NaturalLess("a1", "a01"), NaturalLess("a01", "a1"));
}

TEST(RendezvousTest, GangTimeIsNowWithMaxLaterWithMinNeverBelow) {
  Job job;
  job.min_workers = 2;
  job.max_workers = 4;
  job.settle = absl::Seconds(1);
  const MonotonicTime begin = MonotonicTime::FromNanos(100);
  const MonotonicTime join = begin + absl::Seconds(3);
  const MonotonicTime now = begin + absl::Seconds(5);
  job.gathering_since = begin;
  EXPECT_EQ(GangTime(job, 1, join, now), MonotonicTime::InfiniteFuture());
  EXPECT_EQ(GangTime(job, 2, join, now), join + absl::Seconds(1));
  EXPECT_EQ(GangTime(job, 4, join, now), now);
  EXPECT_EQ(GangTime(job, 5, join, now), now);
  job.gathering_since = now;
  EXPECT_EQ(GangTime(job, 2, join, now), now + absl::Seconds(1));
}

TEST(RendezvousTest, OnlyConnectedIdleWorkersAreAvailable) {
  State state;
  const auto add = [&](const std::string& name) -> Worker& {
    Worker& worker = state.workers[name];
    worker.name = name;
    worker.session = state.workers.size();
    return worker;
  };
  add("idle");
  add("detached").session = 0;
  add("draining").state = WorkerState::kDraining;
  add("assigned").state = WorkerState::kAssigned;
  add("server").role = Role::kParameterServer;
  EXPECT_EQ(IdleCount(state), 1);
  ASSERT_EQ(PackedIdleWorkers(state).size(), 1u);
  EXPECT_EQ(PackedIdleWorkers(state)[0]->name, "idle");
}

TEST(RendezvousTest, LocalRanksCountPerHost) {
  std::vector<Worker> workers(5);
  const std::vector<std::string> hosts = {"x", "x", "y", "y", "y"};
  std::vector<const Worker*> order;
  for (size_t i = 0; i < workers.size(); ++i) {
    workers[i].host_key = hosts[i];
    order.push_back(&workers[i]);
  }
  std::vector<int> local_ranks;
  for (const MemberIdentity& identity : AssignRanks(order)) {
    EXPECT_EQ(identity.rank, static_cast<int>(local_ranks.size()));
    local_ranks.push_back(identity.local_rank);
  }
  EXPECT_EQ(local_ranks, (std::vector<int>{0, 1, 0, 1, 2}));
}

}  // namespace
}  // namespace ringmaster::coordinator
