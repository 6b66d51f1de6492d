// Schedulers that cannot resize a job, nor stop it without losing steps.
#ifndef RINGMASTER_TESTS_BENCH_SCHEDULER_MONTH_PEERS_H_
#define RINGMASTER_TESTS_BENCH_SCHEDULER_MONTH_PEERS_H_

#include <vector>

#include "tests/bench/scheduler/month_trace.h"

namespace ringmaster {

struct PeerPolicy {
  // The pool is cut into as many parts of the same size, each with a queue of its own.
  int partitions = 1;
  // Those behind a job that does not fit may begin before it.
  bool overtakes = false;
  // So may they where they do not delay the first that does not fit, as EASY backfill
  // has it (Lifka, "The ANL/IBM SP Scheduling System", 1995). It knows how long each job
  // takes, which people only guess.
  bool backfills = false;
  // Urgent jobs come first, and end others that run: these begin again at their last
  // checkpoint, and wait in the queue until then.
  bool preempts = false;
  absl::Duration checkpoint_interval = absl::Minutes(30);
  // Until a job that was ended makes a step again: processes, data, checkpoint.
  absl::Duration restart = absl::Minutes(1);
};

[[nodiscard]] MonthResult RunPeer(const TraceOptions& options,
                                  const std::vector<TraceJob>& jobs,
                                  const PeerPolicy& policy);

}  // namespace ringmaster

#endif  // RINGMASTER_TESTS_BENCH_SCHEDULER_MONTH_PEERS_H_
