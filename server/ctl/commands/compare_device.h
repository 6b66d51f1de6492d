// The devices that the workers of a comparison compute on.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_COMPARE_DEVICE_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_COMPARE_DEVICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/ctl/commands/compare.h"

namespace ringmaster {

namespace v1 {
class Status;
}  // namespace v1

namespace ctl {

// Returns true if workers compute on GPUs: as `flags` say, or, on a cluster
// (null: this machine), as its idle workers do. Pure.
//   INVALID_ARGUMENT  names the flag that does not go with that, or says that
//                     idle workers are of both kinds
[[nodiscard]] absl::StatusOr<bool> AreWorkersOnGpus(const CompareFlags& flags,
                                                    const v1::Status* cluster);

// For the report. Asks the driver for the names of this machine's GPUs.
[[nodiscard]] std::string DeviceText(bool is_on_gpus, bool is_cluster,
                                     bool share_gpu);

}  // namespace ctl
}  // namespace ringmaster

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_COMPARE_DEVICE_H_
