#include "server/coordinator/core/placement/quotas.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace ringmaster::coordinator {
namespace {

// Queue a has a quota of 4 workers, b of 2 and at most 4; default has none.
class QuotasTest : public ::testing::Test {
 protected:
  QuotasTest() {
    for (const char* name : {"a", "b", "default"}) {
      state_.queues[name].spec.set_name(name);
    }
    state_.queues["a"].spec.set_workers(4);
    state_.queues["b"].spec.set_workers(2);
    state_.queues["b"].spec.set_most_workers(4);
  }

  Job& Add(const std::string& queue, int min_workers, bool is_active) {
    const int64_t number = static_cast<int64_t>(state_.jobs.size()) + 1;
    Job& job = state_.jobs[number];
    job.number = number;
    job.queue = queue;
    job.min_workers = job.max_workers = min_workers;
    if (is_active) {
      job.stage = stage::Running{};
      state_.active_jobs.insert(number);
    }
    return job;
  }

  State state_;
};

TEST_F(QuotasTest, WithoutQueuesNobodyBorrows) {
  state_.queues.clear();
  const Job& job = Add("default", 8, true);
  SetStandings(state_);
  EXPECT_FALSE(job.place.borrows);
  EXPECT_EQ(QueueOf(state_, job), nullptr);
  EXPECT_EQ(MostOfQueue(state_, job), std::numeric_limits<int>::max());
  EXPECT_TRUE(FiguresOfQueues(state_).empty());
}

TEST_F(QuotasTest, TheFirstInARowAreWithinTheQuotaWhetherTheyHaveBegunOrNot) {
  Job& suspended = Add("a", 2, false);
  suspended.is_suspended = true;
  const Job& first = Add("a", 2, false);
  const Job& second = Add("a", 3, true);
  // It would fit, and does not get before the one that does not.
  Job& third = Add("a", 1, true);
  SetStandings(state_);
  EXPECT_TRUE(suspended.place.borrows);
  EXPECT_FALSE(first.place.borrows);
  EXPECT_TRUE(second.place.borrows);
  EXPECT_TRUE(third.place.borrows);
  EXPECT_EQ(FiguresOfQueues(state_).at("a").borrowed, 4);
  third.priority = 1;
  SetStandings(state_);
  EXPECT_FALSE(third.place.borrows);
  const QueueFigures figures = FiguresOfQueues(state_).at("a");
  EXPECT_EQ(figures.needed, 4);
  EXPECT_EQ(figures.borrowed, 3);
  EXPECT_EQ(figures.active_jobs, 2);
  EXPECT_EQ(figures.queued_jobs, 2);
}

TEST_F(QuotasTest, JobsThatRequireGpusAreWithinTheirPartOfTheQuota) {
  state_.queues["a"].spec.set_gpus(2);
  Job& first = Add("a", 1, true);
  Job& second = Add("a", 2, false);
  const Job& third = Add("a", 1, false);
  first.needs.labels = second.needs.labels = {{"device", "cuda"}};
  SetStandings(state_);
  EXPECT_FALSE(first.place.borrows);
  EXPECT_TRUE(second.place.borrows);
  EXPECT_EQ(QuotaText(state_, second),
            "queue a has a quota of 4 workers, 2 of them on GPUs, and borrows "
            "what is beyond that");
  // It requires none.
  EXPECT_FALSE(third.place.borrows);
  state_.queues["a"].spec.set_gpus(3);
  SetStandings(state_);
  EXPECT_FALSE(second.place.borrows);
}

TEST_F(QuotasTest, WorkersOnGpusAreCountedWhateverTheirJobRequires) {
  Job& job = Add("a", 2, true);
  for (const char* const name : {"w0", "w1"}) {
    Member& member = job.members.emplace_back();
    member.identity.worker = name;
    member.identity.role = v1::ROLE_WORKER;
    state_.workers[name].name = name;
  }
  EXPECT_EQ(FiguresOfQueues(state_).at("a").gpus, 0);
  state_.workers["w1"].device.kind = v1::DEVICE_KIND_CUDA;
  EXPECT_EQ(FiguresOfQueues(state_).at("a").gpus, 1);
}

TEST_F(QuotasTest, ThoseWithinTheirQuotaComeFirstAndThenWhoHasUsedLeast) {
  state_.queues["a"].used = 100;
  state_.queues["a"].spec.set_weight(4);
  state_.queues["b"].used = 50;
  state_.queues["default"].used = 30;
  const Job& borrower_of_b = Add("b", 3, false);
  const Job& borrower = Add("default", 1, false);
  const Job& within = Add("a", 4, false);
  const Job& borrower_of_a = Add("a", 5, false);
  SetStandings(state_);
  EXPECT_TRUE(IsAhead(within, borrower_of_a));
  // 100 for a weight of 4 is less than 30 for one of 1.
  EXPECT_TRUE(IsAhead(borrower_of_a, borrower));
  EXPECT_TRUE(IsAhead(borrower, borrower_of_b));
}

TEST_F(QuotasTest, AQueueHasRoomForTheFewestThatItsJobsNeed) {
  Job& runs = Add("b", 2, true);
  runs.max_workers = 4;
  runs.members.resize(3);
  for (Member& member : runs.members) member.identity.role = v1::ROLE_WORKER;
  Job& fits = Add("b", 2, false);
  Job& too_large = Add("b", 3, false);
  SetStandings(state_);
  EXPECT_TRUE(HasRoom(state_, fits));
  EXPECT_FALSE(HasRoom(state_, too_large));
  EXPECT_EQ(RoomText(state_, too_large),
            "waits for room in queue b: jobs before it need 2 of at most 4 "
            "workers");
  // One has to be given by the other job first.
  EXPECT_EQ(MostOfQueue(state_, fits), 1);
  EXPECT_EQ(MostOfQueue(state_, runs), 4);
  EXPECT_EQ(RoomText(state_, fits),
            "waits for room in queue b: its jobs have 3 of at most 4 workers");
  // What one before it waits for is not its.
  fits.place.needed_ahead = 1;
  EXPECT_FALSE(HasRoom(state_, fits));
  // It could push the other one out.
  too_large.priority = 1;
  SetStandings(state_);
  EXPECT_TRUE(HasRoom(state_, too_large));
}

TEST_F(QuotasTest, AJobOfAQueueThatIsGoneCountsAsInTheDefault) {
  const Job& job = Add("gone", 1, false);
  SetStandings(state_);
  EXPECT_EQ(QueueOf(state_, job)->spec.name(), "default");
  EXPECT_TRUE(job.place.borrows);
  EXPECT_EQ(QuotaText(state_, job),
            "queue default has a quota of 0 workers, and borrows what is "
            "beyond that");
}

}  // namespace
}  // namespace ringmaster::coordinator
