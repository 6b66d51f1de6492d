// Takes compute times from a run that computed, for runs that only emulate
// them. Pure.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_EMULATION_H_
#define RINGMASTER_SERVER_CTL_COMPARE_EMULATION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/ctl/compare/plan.h"
#include "server/ctl/compare/result.h"

namespace ringmaster {

namespace v1 {
class EmulateComputeSpec;
class GetTraceResponse;
}  // namespace v1

namespace ctl {

// Returns the run to take them from: one worker with as many samples at once as
// each worker of `run` has. Runs that compute alike have equal specs here,
// however they exchange gradients.
[[nodiscard]] absl::StatusOr<PlannedRun> RecordingOf(const PlannedRun& run);

// `recorded` is that run's result, and `trace` its rank's spans of some steps:
// each bucket is ready at the median time over them; without a trace, buckets
// are spread evenly. For a run with buckets of `bucket_bytes`.
[[nodiscard]] v1::EmulateComputeSpec EmulationFrom(
    const RunResult& recorded, const v1::GetTraceResponse& trace,
    int64_t bucket_bytes);

}  // namespace ctl
}  // namespace ringmaster

#endif  // RINGMASTER_SERVER_CTL_COMPARE_EMULATION_H_
