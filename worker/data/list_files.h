// Lists the files that a path of the data's configuration stands for.
//
// Links to files are read; anything that is not a regular file is passed over.
// Errors do not name the field. They are FileError's, and INVALID_ARGUMENT for
// a path that is neither a regular file nor a directory.
#ifndef RINGMASTER_WORKER_DATA_LIST_FILES_H_
#define RINGMASTER_WORKER_DATA_LIST_FILES_H_

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/transport/cancel_token.h"

namespace ringmaster {

// Returns `root`, if it is a file; else the files at or below it, in the order
// of their relative paths, compared as bytes: the same on every host. Links to
// directories are not followed. ABORTED if `cancel`, which may be null, was
// cancelled.
[[nodiscard]] absl::StatusOr<std::vector<std::filesystem::path>> ListTree(
    const std::filesystem::path& root, const CancelToken* cancel);

// Returns `path`, if it is a file; else the files right in it whose names end
// in `extension`, in the order of their names. INVALID_ARGUMENT if there are
// none.
[[nodiscard]] absl::StatusOr<std::vector<std::filesystem::path>> ListDirectory(
    const std::filesystem::path& path, std::string_view extension);

// Returns the names of the directories right in the directory `path`, in order.
// Links are passed over, and so are names that begin with a dot.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> ListSubdirectories(
    const std::filesystem::path& path);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_LIST_FILES_H_
