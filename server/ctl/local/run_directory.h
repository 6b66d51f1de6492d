// The directory in which `ringctl local` leaves the logs of a run.
#ifndef RINGMASTER_SERVER_CTL_LOCAL_RUN_DIRECTORY_H_
#define RINGMASTER_SERVER_CTL_LOCAL_RUN_DIRECTORY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace ringmaster::ctl {

// Makes `wanted`, which may exist, or if it is empty a new directory
// ringmaster-run-YYYYMMDD-HHMMSS (local time of `now`) in the current one.
// FAILED_PRECONDITION names the directory that cannot be made and why.
[[nodiscard]] absl::StatusOr<std::string> MakeRunDirectory(
    const std::string& wanted, absl::Time now);

// The last `count` lines of a text file, at most 64 KiB of it; none if it
// cannot be read.
[[nodiscard]] std::vector<std::string> LastLines(const std::string& path,
                                                 int count);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_LOCAL_RUN_DIRECTORY_H_
