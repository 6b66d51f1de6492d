#include "server/coordinator/core/placement/rendezvous.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
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
  job.stage = stage::Gathering{begin};
  EXPECT_EQ(GangTime(job, job.max_workers, 1, join, now),
            MonotonicTime::InfiniteFuture());
  EXPECT_EQ(GangTime(job, job.max_workers, 2, join, now),
            join + absl::Seconds(1));
  EXPECT_EQ(GangTime(job, job.max_workers, 4, join, now), now);
  EXPECT_EQ(GangTime(job, job.max_workers, 5, join, now), now);
  job.stage = stage::Gathering{now};
  EXPECT_EQ(GangTime(job, job.max_workers, 2, join, now),
            now + absl::Seconds(1));
}

// "x0 y1 y2": workers on hosts x and y with these ranks; "z" has none. "x0a" is in
// container a of x, and "xb" in its container b.
std::vector<Worker> WorkersOf(const std::vector<std::string>& texts) {
  std::vector<Worker> workers;
  for (const std::string& text : texts) {
    Worker worker;
    worker.name = text;
    worker.host_key = text.substr(0, 1);
    if (text.size() > 1 && absl::ascii_isdigit(text[1]))
      worker.rank = text[1] - '0';
    if (absl::ascii_isalpha(text.back()) && text.size() > 1)
      worker.container = text.back();
    workers.push_back(worker);
  }
  return workers;
}

std::string OrderOf(const std::vector<std::string>& members,
                    const std::vector<std::string>& joining) {
  const std::vector<Worker> all_members = WorkersOf(members);
  const std::vector<Worker> all_joining = WorkersOf(joining);
  const auto pointers = [](const std::vector<Worker>& workers) {
    std::vector<const Worker*> result;
    for (const Worker& worker : workers) result.push_back(&worker);
    return result;
  };
  std::string text;
  for (const Worker* worker :
       OrderRanks(pointers(all_members), pointers(all_joining))) {
    text += (text.empty() ? "" : " ") + worker->name;
  }
  return text;
}

TEST(RendezvousTest, JoiningFillTheGapsSoThatMembersKeepTheirRanks) {
  EXPECT_EQ(OrderOf({"x0", "z2"}, {"y"}), "x0 y z2");
  EXPECT_EQ(OrderOf({"x1", "z2"}, {"y"}), "y x1 z2");
  EXPECT_EQ(OrderOf({"x0", "y1"}, {"z", "w"}), "x0 y1 z w");
  EXPECT_EQ(OrderOf({"x0", "y3"}, {"y", "x"}), "x0 x y y3");
}

TEST(RendezvousTest, WithoutAnyoneToFillTheGapsMembersKeepTheirOrder) {
  EXPECT_EQ(OrderOf({"x0", "y2", "z3"}, {}), "x0 y2 z3");
  EXPECT_EQ(OrderOf({"x1", "y4"}, {"z"}), "x1 y4 z");
}

TEST(RendezvousTest, HostsStayTogetherEvenIfRanksMove) {
  EXPECT_EQ(OrderOf({"x0", "y1"}, {"x"}), "x0 x y1");
  EXPECT_EQ(OrderOf({"x0", "x2", "y3"}, {"y"}), "x0 x2 y3 y");
  EXPECT_EQ(OrderOf({"x0", "z2"}, {"z", "x", "w"}), "x0 x z2 z w");
}

TEST(RendezvousTest, ContainersOfAHostStayTogetherAndSoDoTheirWorkers) {
  EXPECT_EQ(OrderOf({}, {"xa", "xb", "y", "xa"}), "xa xa xb y");
  EXPECT_EQ(OrderOf({"x0a", "y1"}, {"xb"}), "x0a xb y1");
  EXPECT_EQ(OrderOf({"x0a", "x1b"}, {"xa"}), "x0a xa x1b");
  // Into the gap after one of a host go those of its container, then those of the host.
  EXPECT_EQ(OrderOf({"x0a", "y3"}, {"xb", "xa"}), "x0a xa xb y3");
}

TEST(RendezvousTest, LocalRanksCountPerContainer) {
  std::vector<Worker> workers = WorkersOf({"xa", "xa", "xb", "ya", "ya"});
  std::vector<const Worker*> order;
  for (const Worker& worker : workers) order.push_back(&worker);
  std::vector<int> local_ranks;
  for (const MemberIdentity& identity : AssignRanks(order))
    local_ranks.push_back(identity.local_rank);
  EXPECT_EQ(local_ranks, (std::vector<int>{0, 1, 0, 0, 1}));
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
