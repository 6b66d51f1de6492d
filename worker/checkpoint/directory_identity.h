// DirectoryIdentity tells whether processes on different hosts see the same
// directory.
#ifndef RINGMASTER_WORKER_CHECKPOINT_DIRECTORY_IDENTITY_H_
#define RINGMASTER_WORKER_CHECKPOINT_DIRECTORY_IDENTITY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ringmaster {

// Returns the number that names `directory`, above 0 and the same for all that
// see it. The first caller draws it, makes the directory if it is missing, and
// keeps the number in its file .directory-identity, durably. An empty file, as a crash
// of the machine may leave one, counts as none. Thread-safe, also between processes.
//   DATA_LOSS  the file holds something else
// and FileError's; errors name the path. Fail point: checkpoint.identity (the number is
// durable and not yet in its place).
[[nodiscard]] absl::StatusOr<int64_t> DirectoryIdentity(
    const std::string& directory);

// Returns OK if checkpoints can be written to `directory`, as far as that shows before:
// it is there or can be made, has an identity or room for it, and is not read-only.
// The errors of DirectoryIdentity.
[[nodiscard]] absl::Status CheckWritable(const std::string& directory);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_CHECKPOINT_DIRECTORY_IDENTITY_H_
