#include <gtest/gtest.h>

#include <vector>

#include "tests/bench/scheduler/month_core.h"
#include "tests/bench/scheduler/month_peers.h"
#include "tests/bench/scheduler/month_trace.h"

namespace ringmaster {
namespace {

const TraceOptions kFewDays = {
    .seed = 3, .workers = 16, .load = 0.8, .time = absl::Hours(48), .jobs = 60};

TEST(MonthTest, TheSameSeedMakesTheSameJobsOfTheLoadThatIsWanted) {
  const std::vector<TraceJob> jobs = MakeTrace(kFewDays);
  const std::vector<TraceJob> again = MakeTrace(kFewDays);
  ASSERT_EQ(jobs.size(), 60);
  double work = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_EQ(jobs[i].duration, again[i].duration);
    EXPECT_LE(jobs[i].size, 16);
    work += jobs[i].size * absl::ToDoubleHours(jobs[i].duration);
  }
  EXPECT_NEAR(work, 0.8 * 16 * 48, 0.05 * 16 * 48);
}

// No policy ends a job sooner than it can run.
void ExpectPossible(const std::vector<TraceJob>& jobs,
                    const MonthResult& result, int most_share) {
  for (size_t i = 0; i < jobs.size(); ++i) {
    const double fastest = SpeedOf(most_share * jobs[i].size, jobs[i].size);
    EXPECT_GE(result.completion[i], jobs[i].duration / fastest) << i;
    EXPECT_LT(result.completion[i], absl::Hours(24 * 30)) << i;
  }
}

TEST(MonthTest, EveryJobEndsUnderEveryPolicy) {
  const std::vector<TraceJob> jobs = MakeTrace(kFewDays);
  ExpectPossible(jobs, RunPeer(kFewDays, jobs, {}), 1);
  ExpectPossible(jobs, RunPeer(kFewDays, jobs, {.backfills = true}), 1);
  const MonthResult killing =
      RunPeer(kFewDays, jobs, {.overtakes = true, .preempts = true});
  ExpectPossible(jobs, killing, 1);
  EXPECT_GT(killing.preemptions, 0);
  EXPECT_GT(killing.lost, absl::ZeroDuration());
  ExpectPossible(jobs, RunCore(kFewDays, jobs, {}), 1);
  v1::QueueFile queues;
  queues.add_queues()->set_name("team");
  ExpectPossible(jobs, RunCore(kFewDays, jobs, {.queues = queues}), 1);
  const MonthResult elastic =
      RunCore(kFewDays, jobs, {.least_share = 4, .most_share = 2});
  ExpectPossible(jobs, elastic, 2);
  EXPECT_GT(elastic.resizes, 0);
}

}  // namespace
}  // namespace ringmaster
