// The trace of a job, as its ranks have told it, as a file for https://ui.perfetto.dev.
#ifndef RINGMASTER_COMMON_TRACE_CHROME_TRACE_H_
#define RINGMASTER_COMMON_TRACE_CHROME_TRACE_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/trace/trace.h"
#include "ringmaster/v1/job_service.pb.h"

namespace ringmaster {

// Returns true if any rank has told a span.
[[nodiscard]] bool HasSpans(const v1::GetTraceResponse& response);

// The steps that any rank holds; {0, 0} if none does, or none says so: workers
// of release 0.1 do not.
[[nodiscard]] Trace::StepRange HeldSteps(const v1::GetTraceResponse& response);

// The spans in `response`, the answer to `request`, as Chrome-trace JSON.
//   FAILED_PRECONDITION  there are none: nothing is recorded of these steps (any
//                        more)
[[nodiscard]] absl::StatusOr<std::string> ChromeTrace(
    const v1::GetTraceRequest& request, const v1::GetTraceResponse& response);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRACE_CHROME_TRACE_H_
