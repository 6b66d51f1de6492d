#include "server/coordinator/core/placement/idle_pool.h"

#include <gtest/gtest.h>

#include <string>

#include "common/clock/monotonic_time.h"
#include "server/coordinator/core/state/config.h"

namespace ringmaster::coordinator {
namespace {

TEST(IdlePoolTest, OnlyConnectedIdleWorkersAreAvailable) {
  State state;
  const Job job;
  const auto add = [&](const std::string& name) -> Worker& {
    Worker& worker = state.workers[name];
    worker.name = name;
    worker.session = state.workers.size();
    return worker;
  };
  add("idle");
  add("detached").session = 0;
  add("draining").state = v1::WORKER_STATE_DRAINING;
  add("assigned").state = v1::WORKER_STATE_ASSIGNED;
  add("server").role = v1::ROLE_PARAMETER_SERVER;
  EXPECT_EQ(IdlePool(state, job).Count(Hosts::kSound), 1);
  ASSERT_EQ(IdlePool(state, job).Packed(Hosts::kSound).size(), 1u);
  EXPECT_EQ(IdlePool(state, job).Packed(Hosts::kSound)[0]->name, "idle");
}

TEST(IdlePoolTest, QuarantinedHostsAreTakenOnlyWhereWorkersWouldLack) {
  State state;
  const Job job;
  for (const std::string name : {"a", "b", "c"}) {
    Worker& worker = state.workers[name];
    worker.name = name;
    worker.host_key = "h-" + name;
    worker.session = state.workers.size();
    worker.joined_at = MonotonicTime::FromNanos(name[0]);
  }
  EXPECT_EQ(IdlePool(state, job).HostsFor(3), Hosts::kReady);
  HostQuarantine quarantine;
  quarantine.host_key = "h-c";
  state.quarantines.push_back(quarantine);
  EXPECT_EQ(IdlePool(state, job).HostsFor(2), Hosts::kReady);
  EXPECT_EQ(IdlePool(state, job).HostsFor(3), Hosts::kAll);
  EXPECT_EQ(IdlePool(state, job).Count(Hosts::kSound), 2);
  EXPECT_EQ(IdlePool(state, job).Count(Hosts::kAll), 3);
  EXPECT_EQ(IdlePool(state, job).LastJoin(Hosts::kSound),
            MonotonicTime::FromNanos('b'));
  EXPECT_EQ(IdlePool(state, job).LastJoin(Hosts::kAll),
            MonotonicTime::FromNanos('c'));
  // One that still prepares to join comes before those, one that is unfit never.
  state.workers["b"].rehearsal = Rehearsal{7, false, MonotonicTime()};
  EXPECT_EQ(IdlePool(state, job).HostsFor(1), Hosts::kReady);
  EXPECT_EQ(IdlePool(state, job).HostsFor(2), Hosts::kSound);
  state.quarantines.front().is_unfit = true;
  EXPECT_EQ(IdlePool(state, job).Count(Hosts::kAll), 2);
}

// `number` in `state`, for `min` to `max` workers.
Job& Add(State& state, int64_t number, Stage stage, int min, int max) {
  Job& job = state.jobs[number];
  job.number = number;
  job.id = "j-" + std::to_string(number);
  job.stage = stage;
  job.min_workers = min;
  job.max_workers = max;
  if (job.state() != v1::JOB_STATE_QUEUED) state.active_jobs.insert(number);
  return job;
}

void AddIdle(State& state, int count) {
  for (int i = 0; i < count; ++i) {
    Worker& worker = state.workers["w" + std::to_string(i)];
    worker.name = "w" + std::to_string(i);
    worker.session = state.workers.size();
    worker.join_order = state.workers.size();
    worker.protocol = kLeaveProtocol;
  }
}

TEST(IdlePoolTest, AJobThatGathersLeavesWhatItCannotTakeOrUse) {
  State state;
  AddIdle(state, 3);
  const Job& first = Add(state, 1, stage::Gathering{}, 2, 2);
  const Job& second = Add(state, 2, stage::Gathering{}, 1, 9);
  EXPECT_EQ(IdlePool(state, first).Count(Hosts::kAll), 3);
  EXPECT_EQ(IdlePool(state, second).Count(Hosts::kAll), 1);
  state.workers.erase("w2");
  state.workers.erase("w1");  // too few for the first
  EXPECT_EQ(IdlePool(state, second).Count(Hosts::kAll), 1);
  EXPECT_TRUE(CanBegin(state, second));
}

TEST(IdlePoolTest, AJobTakesWorkersThatAreFitForIt) {
  State state;
  AddIdle(state, 3);
  Job& job = Add(state, 1, stage::Queued{}, 1, 3);
  job.needs.labels = {{"gpu", "h100"}};
  EXPECT_FALSE(CanBegin(state, job));
  EXPECT_FALSE(CouldBegin(state, job));
  state.workers["w1"].labels = {{"gpu", "h100"}, {"zone", "a"}};
  state.workers["w2"].labels = {{"gpu", "a100"}};
  EXPECT_EQ(IdlePool(state, job).Count(Hosts::kAll), 1);
  EXPECT_TRUE(CouldBegin(state, job));
  EXPECT_EQ(NeededText(job), "1 worker with gpu=h100");
  job.runs_commands = true;
  EXPECT_FALSE(CanBegin(state, job));
  EXPECT_EQ(NeededText(job), "1 worker with gpu=h100 that run commands");
  state.workers["w1"].runs_commands = true;
  EXPECT_TRUE(CanBegin(state, job));
  // A server needs none.
  state.workers["w0"].role = v1::ROLE_PARAMETER_SERVER;
  EXPECT_TRUE(IsFitFor(job, state.workers["w0"]));
}

TEST(IdlePoolTest, WorkersAreKeptForTheFirstThatLacksThem) {
  State state;
  AddIdle(state, 2);
  Job& large = Add(state, 1, stage::Queued{}, 3, 3);
  Job& small = Add(state, 2, stage::Queued{}, 1, 1);
  const Job& trains = Add(state, 3, stage::Running{}, 1, 4);
  state.first_lacking = 1;
  EXPECT_TRUE(CanBegin(state, small));
  large.place.is_overdue = true;
  EXPECT_FALSE(CanBegin(state, small));
  small.can_go_on_later = true;  // it would give them back
  EXPECT_TRUE(CanBegin(state, small));
  state.workers["w0"].protocol = kLeaveProtocol - 1;  // it could not
  EXPECT_FALSE(CanBegin(state, small));
  state.workers["w0"].protocol = kLeaveProtocol;
  state.jobs.at(3).suspend_retry = MonotonicTime();  // one did not
  EXPECT_FALSE(CanBegin(state, small));
  state.jobs.at(3).suspend_retry = MonotonicTime::InfiniteFuture();
  small.is_benchmark = true;
  EXPECT_FALSE(CanBegin(state, small));
  small.is_benchmark = false;
  large.place.is_served = true;
  EXPECT_FALSE(CanBegin(state, small));
  EXPECT_EQ(IdlePool(state, trains).Count(Hosts::kAll), 0);
  EXPECT_EQ(IdlePool(state, large).Count(Hosts::kAll), 2);
}

TEST(IdlePoolTest, AHaltedJobComesFirstUnlessItCannotGoOnAndAnotherCan) {
  State state;
  AddIdle(state, 1);
  Add(state, 1, stage::Halting{}, 2, 2);
  const Job& one_lacks = Add(state, 2, stage::Halting{}, 1, 1);
  const Job& queued = Add(state, 3, stage::Queued{}, 1, 1);
  EXPECT_EQ(IdlePool(state, one_lacks).Count(Hosts::kAll), 1);
  EXPECT_EQ(IdlePool(state, queued).Count(Hosts::kAll), 0);
}

TEST(IdlePoolTest, AWorkerThatIsAnothersIsNobodyElses) {
  State state;
  AddIdle(state, 2);
  const Job& job = Add(state, 1, stage::Gathering{}, 1, 2);
  state.workers["w0"].rehearsal = Rehearsal{7, true, MonotonicTime(), "j-9"};
  EXPECT_EQ(IdlePool(state, job).Count(Hosts::kAll), 1);
  state.workers["w1"].keeps_steps_of = "j-9";
  EXPECT_EQ(IdlePool(state, job).Count(Hosts::kAll), 0);
}

}  // namespace
}  // namespace ringmaster::coordinator
