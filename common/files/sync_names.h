// SyncNames: the names in a directory survive a power failure.
#ifndef RINGMASTER_COMMON_FILES_SYNC_NAMES_H_
#define RINGMASTER_COMMON_FILES_SYNC_NAMES_H_

#include <string>

namespace ringmaster {

// Makes the names in `directory` durable, where that is possible: some file systems
// cannot, and a directory that may be passed through but not read has no other way.
// Returns the errno of what went wrong, or 0.
[[nodiscard]] int SyncNames(const std::string& directory);

// The directory that `path` is in: "." for a name alone.
[[nodiscard]] std::string DirectoryOf(const std::string& path);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_FILES_SYNC_NAMES_H_
