// The differences of a run whose workers compute on GPUs: what they refuse, and
// how they are started. Pure.
//
// NCCL does their all-reduces; it chooses the algorithm itself, or is
// restricted to rings by a variable in the workers' environment. Parameter
// servers are the same as for CPUs.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_GPU_RUN_H_
#define RINGMASTER_SERVER_CTL_COMPARE_GPU_RUN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/ctl/compare/mode.h"

namespace ringmaster {

namespace v1 {
class TrainProgram;
}  // namespace v1

namespace ctl {

// The modes that are compared on GPUs by default. Workers of a cluster were
// started for one of the two.
inline constexpr char kGpuModes[] = "auto,ring";
inline constexpr char kClusterGpuModes[] = "auto";

//   INVALID_ARGUMENT  a mode of workers on CPUs, or two between which the
//                     workers of a cluster cannot change; names the flag
//                     --modes
[[nodiscard]] absl::Status CheckGpuModes(const std::vector<Mode>& modes,
                                         bool is_cluster);

// Checks that workers on GPUs can train `train`, by its settings for gradients.
//   INVALID_ARGUMENT  names the field
[[nodiscard]] absl::Status CheckGpuProgram(const v1::TrainProgram& train);

// Returns true if NCCL reduces the gradients, which does not report the bytes
// it moves.
[[nodiscard]] bool IsReducedByNccl(const v1::TrainProgram& train);

// The program and arguments that start a worker, so that NCCL chooses as
// `train` says, whatever the environment.
[[nodiscard]] std::vector<std::string> NcclLauncher(
    const v1::TrainProgram& train);

}  // namespace ctl
}  // namespace ringmaster

#endif  // RINGMASTER_SERVER_CTL_COMPARE_GPU_RUN_H_
