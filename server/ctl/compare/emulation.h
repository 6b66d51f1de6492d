// Takes the times of computing from a run that computed, for runs that shall only
// take as long. Pure.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_EMULATION_H_
#define RINGMASTER_SERVER_CTL_COMPARE_EMULATION_H_

#include "absl/status/statusor.h"
#include "server/ctl/compare/plan.h"
#include "server/ctl/compare/result.h"

namespace ringmaster {

namespace v1 {
class EmulateComputeSpec;
class GetTraceResponse;
}  // namespace v1

namespace ctl {

// The run to take them from: one worker with the samples that each worker of
// `run` has. Runs that compute alike have equal specs here.
[[nodiscard]] absl::StatusOr<PlannedRun> RecordingOf(const PlannedRun& run);

// `recorded` is that run's result, and `trace` what its rank told of some steps:
// when each bucket was ready, as the median over them; without it they are
// spread evenly.
[[nodiscard]] v1::EmulateComputeSpec EmulationFrom(
    const RunResult& recorded, const v1::GetTraceResponse& trace);

}  // namespace ctl
}  // namespace ringmaster

#endif  // RINGMASTER_SERVER_CTL_COMPARE_EMULATION_H_
