// The month with the coordinator's real core: simulated workers train as fast as they
// are many, answer at once, and need some time to form a generation or to write a
// checkpoint.
#ifndef RINGMASTER_TESTS_BENCH_SCHEDULER_MONTH_CORE_H_
#define RINGMASTER_TESTS_BENCH_SCHEDULER_MONTH_CORE_H_

#include <vector>

#include "ringmaster/v1/queue.pb.h"
#include "tests/bench/scheduler/month_trace.h"

namespace ringmaster {

struct CorePolicy {
  // A job runs with `size / least_share` workers at least, and `size * most_share` at
  // most.
  int least_share = 1;
  int most_share = 1;
  // How long others may begin before the first that lacks workers.
  absl::Duration overtake_time = absl::Minutes(10);
  // Nobody trains from the moment when a generation ends until the next one does.
  absl::Duration pause = absl::Milliseconds(100);
  absl::Duration checkpoint = absl::Seconds(5);
  // A queue for each team, in order; none: all are in one line.
  v1::QueueFile queues = {};
};

[[nodiscard]] MonthResult RunCore(const TraceOptions& options,
                                  const std::vector<TraceJob>& jobs,
                                  const CorePolicy& policy);

}  // namespace ringmaster

#endif  // RINGMASTER_TESTS_BENCH_SCHEDULER_MONTH_CORE_H_
