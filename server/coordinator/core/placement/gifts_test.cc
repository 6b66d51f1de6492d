#include "server/coordinator/core/placement/gifts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/coordinator/core/state/config.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class GiftsTest : public ::testing::Test {
 protected:
  // A job with that number that trains on `count` new workers, "j<number>w0", ...
  Job& AddTraining(int64_t number, int count, int min) {
    Job& job = AddJob(number, min);
    job.stage = stage::Running{};
    job.generation = number;
    job.first_generation = job.stay_began = number;
    job.start_time = absl::UnixEpoch();
    for (int rank = 0; rank < count; ++rank) {
      Worker& worker = AddWorker(job.id + "w" + std::to_string(rank));
      worker.job_id = job.id;
      worker.state = v1::WORKER_STATE_ASSIGNED;
      Member member;
      member.identity.worker = worker.name;
      member.identity.rank = rank;
      member.identity.role = v1::ROLE_WORKER;
      job.members.push_back(member);
    }
    state_.active_jobs.insert(number);
    return job;
  }

  // The first job that lacks workers.
  Job& AddLacking(int64_t number, int min) {
    Job& job = AddJob(number, min);
    state_.first_lacking = number;
    return job;
  }

  Worker& AddWorker(const std::string& name) {
    Worker& worker = state_.workers[name];
    worker.name = name;
    worker.host = worker.host_key = "h-" + name;
    worker.role = v1::ROLE_WORKER;
    worker.session = state_.workers.size();
    worker.protocol = kLeaveProtocol;
    return worker;
  }

  // "j<number>s".
  void AddServer(Job& job) {
    Worker& server = AddWorker(job.id + "s");
    server.role = v1::ROLE_PARAMETER_SERVER;
    server.job_id = job.id;
    server.state = v1::WORKER_STATE_ASSIGNED;
    job.sharding.shards = job.sharding.servers = 1;
    Member member;
    member.identity.worker = server.name;
    member.identity.rank = static_cast<int>(job.members.size());
    member.identity.role = v1::ROLE_PARAMETER_SERVER;
    job.members.push_back(member);
  }

  void AddCordon(const std::string& name, bool drains) {
    CordonedRecord record;
    record.target = name;
    record.drains = drains;
    state_.cordons.insert_or_assign(name, Cordon{record});
  }

  [[nodiscard]] std::vector<std::string> Given() const {
    std::vector<std::string> names;
    for (const Gift& gift : Gifts(state_)) names.push_back(gift.worker->name);
    return names;
  }

  State state_;

 private:
  Job& AddJob(int64_t number, int min) {
    Job& job = state_.jobs[number];
    job.number = number;
    job.id = "j" + std::to_string(number);
    job.min_workers = min;
    job.max_workers = 100;
    return job;
  }
};

TEST_F(GiftsTest, AsManyAsLackFromTheHighestRankDown) {
  AddTraining(1, 4, 1);
  AddLacking(2, 2);
  EXPECT_THAT(Given(), ElementsAre("j1w3", "j1w2"));
  // An idle worker is one that nobody has to give.
  AddWorker("idle");
  EXPECT_THAT(Given(), ElementsAre("j1w3"));
}

TEST_F(GiftsTest, NoneIfAllTogetherWereNotEnough) {
  AddTraining(1, 3, 2);
  AddTraining(2, 2, 2);
  AddLacking(3, 2);
  EXPECT_THAT(Given(), IsEmpty());
  EXPECT_EQ(GiftsText(state_, state_.jobs.at(3)), "");
}

TEST_F(GiftsTest, TheJobWithMostBeyondItsMinGivesFirst) {
  AddTraining(1, 4, 1);
  AddTraining(2, 3, 1);
  AddLacking(3, 4);
  EXPECT_THAT(Given(), ElementsAre("j1w3", "j2w2", "j1w2", "j2w1"));
  EXPECT_EQ(GiftsText(state_, state_.jobs.at(3)),
            "jobs j1, j2 give it workers j1w2, j1w3, j2w1, j2w2");
}

TEST_F(GiftsTest, WhatTheLowestPriorityHasToSpareIsGivenFirst) {
  AddTraining(1, 6, 1).priority = 1;
  AddTraining(2, 3, 1);
  AddLacking(3, 3).priority = 1;
  EXPECT_THAT(Given(), ElementsAre("j2w2", "j2w1", "j1w5"));
}

TEST_F(GiftsTest, AHigherPriorityGivesNothing) {
  AddTraining(1, 6, 1).priority = 1;
  AddLacking(2, 1);
  EXPECT_THAT(Given(), IsEmpty());
}

TEST_F(GiftsTest, ALowerPriorityGivesWayIfThereIsNotEnoughToSpare) {
  AddTraining(1, 3, 2).can_go_on_later = true;
  AddTraining(2, 3, 2).can_go_on_later = true;
  AddLacking(3, 3).priority = 1;
  // The later one goes; the other gives nothing then.
  EXPECT_THAT(Given(), ElementsAre("j2w2", "j2w1", "j2w0"));
  EXPECT_EQ(WhyGivesWay(state_, state_.jobs.at(2), Gifts(state_)),
            "gives way to job j3 (priority 1)");
  EXPECT_EQ(WhyGivesWay(state_, state_.jobs.at(1), Gifts(state_)),
            std::nullopt);
}

TEST_F(GiftsTest, AsFewAsPossibleGiveWay) {
  AddTraining(1, 4, 4).can_go_on_later = true;
  AddTraining(2, 1, 1).can_go_on_later = true;
  AddLacking(3, 4).priority = 1;
  EXPECT_THAT(Given(), ElementsAre("j1w3", "j1w2", "j1w1", "j1w0"));
}

TEST_F(GiftsTest, WhoCouldNotGoOnLaterDoesNotGiveWay) {
  AddTraining(1, 2, 2);
  Job& job = AddTraining(2, 2, 2);
  job.can_go_on_later = true;
  AddLacking(3, 1).priority = 1;
  EXPECT_THAT(Given(), ElementsAre("j2w1"));
  state_.workers["j2w0"].protocol = kLeaveProtocol - 1;
  EXPECT_THAT(Given(), IsEmpty());
  state_.workers["j2w0"].protocol = kLeaveProtocol;
  job.suspend_retry = state_.now + absl::Seconds(1);
  EXPECT_THAT(Given(), IsEmpty());
}

TEST_F(GiftsTest, NobodyGivesWayInVainOrToAnEqual) {
  AddTraining(1, 2, 2).can_go_on_later = true;
  Job& taker = AddLacking(2, 3);
  taker.priority = 1;
  EXPECT_THAT(Given(), IsEmpty());
  taker.min_workers = 2;
  taker.priority = 0;
  EXPECT_THAT(Given(), IsEmpty());
}

TEST_F(GiftsTest, WhoHasOvertakenAJobGivesWayOnceThatIsOverdue) {
  Job& small = AddTraining(3, 1, 1);
  Job& later = AddTraining(4, 1, 1);
  AddTraining(1, 2, 2).can_go_on_later = true;  // it was there before
  small.can_go_on_later = later.can_go_on_later = true;
  AddWorker("idle");
  Job& lacking = AddLacking(2, 2);
  EXPECT_THAT(Given(), IsEmpty());
  lacking.place.is_overdue = true;
  EXPECT_THAT(Given(), ElementsAre("j4w0"));
  EXPECT_EQ(WhyGivesWay(state_, later, Gifts(state_)),
            "gives way to job j2, which it has overtaken");
  later.can_go_on_later = false;
  EXPECT_THAT(Given(), ElementsAre("j3w0"));
  // It has taken its place after that one had begun.
  lacking.place.after = 3;
  EXPECT_THAT(Given(), IsEmpty());
}

TEST_F(GiftsTest, NobodyHasOvertakenAJobThatHasBegun) {
  AddTraining(3, 1, 1).can_go_on_later = true;
  Job& broken = AddTraining(2, 1, 2);
  broken.stage = stage::Gathering{};
  broken.place.is_overdue = true;
  EXPECT_THAT(Given(), IsEmpty());
}

TEST_F(GiftsTest, WhatASuspendedJobHasIsForAnybody) {
  Job& job = AddTraining(1, 3, 2);
  job.priority = 5;
  job.can_go_on_later = job.is_suspended = true;
  AddLacking(2, 2);
  EXPECT_THAT(Given(), ElementsAre("j1w2", "j1w1"));
}

TEST_F(GiftsTest, OnlyWorkersThatCanBeReleasedMakeRoomInAQueue) {
  state_.queues["default"].spec.set_most_workers(4);
  AddTraining(1, 4, 1);
  for (const char* name : {"idle0", "idle1"}) AddWorker(name);
  AddLacking(2, 2);
  EXPECT_THAT(Given(), ElementsAre("j1w3", "j1w2"));
  // Not known to be there since the coordinator restarted.
  for (const char* name : {"j1w1", "j1w2", "j1w3"})
    state_.workers[name].session = 0;
  EXPECT_THAT(Given(), IsEmpty());
}

TEST_F(GiftsTest, WhoCannotChangeItsMembersGivesNone) {
  AddTraining(1, 4, 1).runs_commands = true;
  AddTraining(2, 4, 1).is_benchmark = true;
  AddLacking(3, 1);
  EXPECT_THAT(Given(), IsEmpty());
}

TEST_F(GiftsTest, WhoIsOfNoUseToTheOtherStays) {
  AddTraining(1, 6, 1);
  AddLacking(2, 1);
  state_.workers["j1w5"].session = 0;
  state_.workers["j1w4"].protocol = kLeaveProtocol - 1;
  AddCordon("j1w3", /*drains=*/false);
  HostQuarantine quarantine;
  quarantine.host_key = "h-j1w2";
  quarantine.is_unfit = true;
  state_.quarantines.push_back(quarantine);
  EXPECT_THAT(Given(), ElementsAre("j1w1"));
}

TEST_F(GiftsTest, WhoLeavesAnywayIsNotBeyondTheMin) {
  AddTraining(1, 3, 1);
  AddLacking(2, 1);
  state_.workers["j1w2"].state = v1::WORKER_STATE_DRAINING;
  EXPECT_THAT(Given(), ElementsAre("j1w1"));
  AddCordon("j1w1", /*drains=*/true);
  EXPECT_THAT(Given(), IsEmpty());
}

TEST_F(GiftsTest, AJobWhoseMembersHaveHaltedComesFirst) {
  AddTraining(1, 3, 1);
  AddLacking(2, 2);
  Job& broken = AddTraining(3, 2, 2);
  broken.stage = stage::Gathering{};
  broken.members[1].is_lost = true;
  // One is left for the other then, which needs two.
  EXPECT_THAT(Given(), ElementsAre("j1w2"));
  EXPECT_EQ(GiftsText(state_, broken), "job j1 gives it worker j1w2");
  // It waits for those that hold its steps, not for workers.
  broken.absence.holders_deadline = MonotonicTime::FromNanos(1);
  EXPECT_THAT(Given(), ElementsAre("j1w2", "j1w1"));
}

TEST_F(GiftsTest, AnIdleWorkerIsOneJobsOnly) {
  AddTraining(1, 3, 1);
  for (const int64_t number : {2, 3}) {
    Job& broken = AddTraining(number, 3, 3);
    broken.stage = stage::Gathering{};
    broken.members[1].is_lost = true;
    broken.members[2].is_lost = true;
  }
  AddWorker("idle");
  // The first has the idle one and one more; the other would still lack one.
  EXPECT_THAT(Given(), ElementsAre("j1w2"));
  AddWorker("idle2");
  // Both idle ones are the first's.
  EXPECT_THAT(Given(), ElementsAre("j1w2", "j1w1"));
  EXPECT_EQ(GiftsText(state_, state_.jobs.at(3)),
            "job j1 gives it workers j1w1, j1w2");
}

TEST_F(GiftsTest, WhoIsHeldUpIsNotAsked) {
  Job& held_up = AddTraining(1, 4, 1);
  AddTraining(2, 2, 1);
  AddLacking(3, 1);
  EXPECT_THAT(Given(), ElementsAre("j1w3"));
  held_up.stage = stage::Gathering{};
  EXPECT_THAT(Given(), ElementsAre("j1w3"));
  held_up.absence.holders_deadline = MonotonicTime::FromNanos(1);
  EXPECT_THAT(Given(), ElementsAre("j2w1"));
}

TEST_F(GiftsTest, WhoHoldsNoStepGoesFirst) {
  Job& giver = AddTraining(1, 3, 1);
  AddLacking(2, 1);
  giver.stage = stage::Gathering{};
  for (Member& member : giver.members) {
    member.halted = HaltedAnswer{.applied_step = 7, .complete_step = 7};
  }
  giver.members[1].halted = HaltedAnswer{};
  EXPECT_THAT(Given(), ElementsAre("j1w1"));
}

TEST_F(GiftsTest, AJobThatLacksServersIsNotHelpedByWorkers) {
  AddTraining(1, 3, 1);
  Job& lacking = AddLacking(2, 1);
  lacking.sharding.shards = 1;
  lacking.sharding.servers = 1;
  EXPECT_THAT(Given(), IsEmpty());
  AddWorker("server").role = v1::ROLE_PARAMETER_SERVER;
  EXPECT_THAT(Given(), ElementsAre("j1w2"));
}

TEST_F(GiftsTest, ServersAreGivenByWhoGivesWay) {
  for (const int64_t number : {1, 2}) {
    Job& job = AddTraining(number, 2, 2);
    job.keeps_checkpoints = job.can_go_on_later = true;
    AddServer(job);
  }
  Job& lacking = AddLacking(3, 1);
  lacking.sharding.shards = 1;
  lacking.sharding.servers = 1;
  // Of the same priority nobody gives way.
  EXPECT_THAT(Given(), IsEmpty());
  lacking.priority = 1;
  EXPECT_THAT(Given(), ElementsAre("j2s", "j2w1"));
  EXPECT_EQ(GiftsText(state_, lacking),
            "job j2 gives it worker j2w1 and parameter server j2s");
  // With an idle worker it lacks only the server.
  AddWorker("idle");
  EXPECT_THAT(Given(), ElementsAre("j2s"));
  EXPECT_EQ(WhyGivesWay(state_, state_.jobs.at(2), Gifts(state_)),
            "gives way to job j3 (priority 1)");
  // Both give way if it needs two; in vain nobody does.
  lacking.sharding.servers = 2;
  EXPECT_THAT(Given(), ElementsAre("j2s", "j1s"));
  lacking.sharding.servers = 3;
  EXPECT_THAT(Given(), IsEmpty());
  lacking.sharding.servers = 2;
  lacking.min_workers = 9;
  EXPECT_THAT(Given(), IsEmpty());
}

}  // namespace
}  // namespace ringmaster::coordinator
