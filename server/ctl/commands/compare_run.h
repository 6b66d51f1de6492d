// One run of a comparison: a job, from the processes that it needs to its
// figures.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_COMPARE_RUN_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_COMPARE_RUN_H_

#include <string>

#include "absl/status/statusor.h"
#include "ringmaster/v1/job_service.pb.h"
#include "server/ctl/commands/compare.h"
#include "server/ctl/compare/link_namespaces.h"
#include "server/ctl/compare/plan.h"
#include "server/ctl/local/local_cluster.h"

namespace ringmaster::ctl {

struct FinishedRun {
  RunResult result;   // with a failure, if there was one
  int exit_code = 0;  // of the job, or of what prevented it
  // The trace of some steps by its ranks, late in the run; empty unless asked
  // for.
  v1::GetTraceResponse trace;
};

// On the cluster of `context`. CANCELLED: the user wants it to end.
[[nodiscard]] absl::StatusOr<FinishedRun> RunOnCluster(
    const CompareContext& context, const PlannedRun& planned, bool has_trace);

// With processes of its own on this machine, as `options` says; `links` may be
// null. CANCELLED as above.
[[nodiscard]] absl::StatusOr<FinishedRun> RunOnThisMachine(
    const CompareContext& context, const PlannedRun& planned, bool has_trace,
    LocalClusterOptions options, const LinkNamespaces* links);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_COMPARE_RUN_H_
