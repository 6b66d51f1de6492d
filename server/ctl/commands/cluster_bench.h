// `ringctl bench allreduce --coordinator=...` measures how fast workers of a
// pool reduce. The benchmark is a job that they run.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_CLUSTER_BENCH_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_CLUSTER_BENCH_H_

#include <functional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ringmaster/v1/job.pb.h"
#include "server/ctl/client/bell.h"
#include "server/ctl/commands/bench.h"
#include "server/ctl/commands/context.h"

namespace ringmaster::ctl {

struct ClusterBenchOptions {
  BenchFlags flags;
  // Rung when is_interrupted changes.
  Bell& bell;
  // True once the user wants the job to end: it is cancelled politely.
  std::function<bool()> is_interrupted;
  absl::Duration cancel_limit = absl::Minutes(1);
};

// Returns the job that `flags` ask for, with `workers`. INVALID_ARGUMENT names
// the flag.
[[nodiscard]] absl::StatusOr<v1::JobSpec> BenchJobSpec(const BenchFlags& flags,
                                                       int workers);

// Submits the job, follows it to its end and prints its figures: a table that
// grows by a line a size, or one JSON document at the end. Progress goes to
// stderr. Returns the job's exit code; 0 only if every element was right.
[[nodiscard]] absl::StatusOr<int> RunClusterBench(
    const CommandContext& context, const ClusterBenchOptions& options);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_CLUSTER_BENCH_H_
