#include "server/coordinator/core/placement/forecast.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/protocol/proto_time.h"
#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {
namespace {

class ForecastTest : public ::testing::Test {
 protected:
  Worker& AddWorker(const std::string& name) {
    Worker& worker = state_.workers[name];
    worker.name = name;
    worker.session = state_.workers.size();
    return worker;
  }

  // One that waits; `min` workers.
  Job& AddJob(int min) {
    const auto number = static_cast<int64_t>(state_.jobs.size()) + 1;
    Job& job = state_.jobs[number];
    job.number = number;
    job.id = "j-" + std::to_string(number);
    job.min_workers = job.max_workers = min;
    job.total_steps = 100;
    return job;
  }

  // One that trains with these, and whose steps take a second.
  Job& AddRunning(int min, const std::vector<std::string>& workers,
                  int64_t step) {
    Job& job = AddJob(min);
    job.stage = stage::Running{};
    job.start_time = absl::UnixEpoch();
    job.best_step = step;
    *job.figures.mutable_step_duration() = ToProto(absl::Seconds(1));
    state_.active_jobs.insert(job.number);
    for (const std::string& name : workers) {
      Worker& worker = AddWorker(name);
      worker.state = v1::WORKER_STATE_ASSIGNED;
      worker.job_id = job.id;
      Member& member = job.members.emplace_back();
      member.identity.worker = name;
      member.identity.rank = static_cast<int>(job.members.size()) - 1;
    }
    return job;
  }

  State state_;
};

TEST_F(ForecastTest, BeginsWhenAsManyWorkersAsItNeedsAreFree) {
  AddRunning(2, {"a", "b"}, 40);
  AddRunning(1, {"c"}, 90);
  const Job& one = AddJob(1);
  EXPECT_EQ(ForecastStart(state_, one).until_start, absl::Seconds(10));
  AddWorker("d");
  EXPECT_EQ(ForecastStart(state_, one).until_start, absl::ZeroDuration());
  // A cordoned one is not free.
  state_.cordons["d"].target = "d";
  EXPECT_EQ(ForecastStart(state_, one).until_start, absl::Seconds(10));
  // Those before it take what they need first, and nobody knows for how long.
  const Job& two = AddJob(2);
  EXPECT_EQ(ForecastStart(state_, two).until_start, absl::Seconds(60));
  const Job& three = AddJob(1);
  const Forecast forecast = ForecastStart(state_, three);
  EXPECT_FALSE(forecast.until_start.has_value());
  EXPECT_EQ(forecast.why_unknown, "nobody can tell how long job j-4 takes");
}

TEST_F(ForecastTest, AJobThatWasSuspendedHasAPace) {
  AddRunning(1, {"a"}, 90);
  Job& suspended = AddJob(1);
  suspended.start_time = absl::UnixEpoch();
  suspended.best_step = 80;
  *suspended.figures.mutable_step_duration() = ToProto(absl::Seconds(2));
  const Job& last = AddJob(1);
  EXPECT_EQ(ForecastStart(state_, suspended).until_start, absl::Seconds(10));
  EXPECT_EQ(ForecastStart(state_, last).until_start, absl::Seconds(50));
}

TEST_F(ForecastTest, WorkersBeyondAMinAreFreeNow) {
  Job& running = AddRunning(1, {"a", "b", "c"}, 40);
  running.max_workers = 3;
  const Job& job = AddJob(2);
  EXPECT_EQ(ForecastStart(state_, job).until_start, absl::ZeroDuration());
}

TEST_F(ForecastTest, SaysWhyNobodyCanTell) {
  Job& running = AddRunning(1, {"a"}, 40);
  const Job& job = AddJob(1);
  for (bool Job::*const unknown :
       {&Job::runs_commands, &Job::is_benchmark, &Job::can_end_early}) {
    running.*unknown = true;
    EXPECT_EQ(ForecastStart(state_, job).why_unknown,
              "nobody can tell how long job j-1 takes");
    running.*unknown = false;
  }
  running.figures.clear_step_duration();
  EXPECT_FALSE(TimeLeft(running).has_value());
  const Job& large = AddJob(2);
  EXPECT_EQ(ForecastStart(state_, large).why_unknown,
            "it needs 2 workers, more than there are");
}

}  // namespace
}  // namespace ringmaster::coordinator
