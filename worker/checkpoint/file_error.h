// FileError turns an errno of a file operation into a Status.
#ifndef RINGMASTER_WORKER_CHECKPOINT_FILE_ERROR_H_
#define RINGMASTER_WORKER_CHECKPOINT_FILE_ERROR_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace ringmaster {

// "cannot `action` `path`: what the system says".
//   RESOURCE_EXHAUSTED   no space, over a quota or limit, no descriptor left
//   PERMISSION_DENIED    not allowed, or a read-only file system; with IsOutsideRoots
//                        for EXDEV, which is that of ProcessFiles
//                        (common/files/file_roots.h)
//   NOT_FOUND            no such file
//   FAILED_PRECONDITION  the path cannot be that of such a file
//   UNAVAILABLE          anything else: the disk fails (EIO), ...
// Requires errno_value != 0.
[[nodiscard]] absl::Status FileError(std::string_view action,
                                     const std::string& path, int errno_value);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_CHECKPOINT_FILE_ERROR_H_
