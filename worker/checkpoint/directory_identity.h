// DirectoryIdentity tells whether processes on different hosts see the same
// directory.
#ifndef RINGMASTER_WORKER_CHECKPOINT_DIRECTORY_IDENTITY_H_
#define RINGMASTER_WORKER_CHECKPOINT_DIRECTORY_IDENTITY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace ringmaster {

// Returns the number that names `directory`, above 0 and the same for all that
// see it. The first caller draws it, makes the directory if it is missing, and
// keeps the number in its file .directory-identity. Thread-safe, also between
// processes.
// Errors name the path.
[[nodiscard]] absl::StatusOr<int64_t> DirectoryIdentity(
    const std::string& directory);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_CHECKPOINT_DIRECTORY_IDENTITY_H_
