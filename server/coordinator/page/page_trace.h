// The timelines of a job's ranks for the page. The workers hold them, and are asked when
// somebody wants to see one.
#ifndef RINGMASTER_SERVER_COORDINATOR_PAGE_PAGE_TRACE_H_
#define RINGMASTER_SERVER_COORDINATOR_PAGE_PAGE_TRACE_H_

#include <string>

#include "absl/status/statusor.h"
#include "ringmaster/v1/job_service.pb.h"
#include "server/coordinator/rpc/runtime.h"

namespace ringmaster::coordinator {

// Returns the request for the trace of `job` with the steps that a query names, in
// decimal; empty: the default.
//   INVALID_ARGUMENT  a step is not one, or the last is before the first
[[nodiscard]] absl::StatusOr<v1::GetTraceRequest> ParseTraceQuery(
    const std::string& job, const std::string& first_step,
    const std::string& last_step);

// Asks the members of the job, and waits for their answers. Not for the executor's
// thread.
//   NOT_FOUND    no such job
//   UNAVAILABLE  the coordinator has not answered in time
// Others as CoordinatorRuntime::GatherTrace.
[[nodiscard]] absl::StatusOr<v1::GetTraceResponse> AskForTrace(
    CoordinatorRuntime& runtime, const v1::GetTraceRequest& request);

// Keeps of `trace` the newest step that all ranks with spans have left behind; if they
// have left none behind, the newest that all of them have begun.
void KeepNewestStep(v1::GetTraceResponse& trace);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_PAGE_PAGE_TRACE_H_
