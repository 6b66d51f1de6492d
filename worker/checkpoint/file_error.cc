#include "worker/checkpoint/file_error.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/files/file_roots.h"
#include "common/status/annotate.h"

namespace ringmaster {

absl::Status FileError(std::string_view action, const std::string& path,
                       int errno_value) {
  const std::string message =
      absl::StrCat("cannot ", absl::string_view(action.data(), action.size()),
                   " ", path, ": ", std::strerror(errno_value));
  switch (errno_value) {
    case EXDEV: {
      const bool reads = action == "open" || action == "read";
      return Annotate(ProcessFiles().Refusal(
                          path, reads ? FileAccess::kRead : FileAccess::kWrite),
                      std::string("cannot ") + std::string(action));
    }
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::ResourceExhaustedError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOENT:
      return absl::NotFoundError(message);
    case ENOTDIR:
    case EISDIR:
    case EEXIST:
    case ELOOP:
    case ENAMETOOLONG:
      return absl::FailedPreconditionError(message);
    default:
      return absl::UnavailableError(message);
  }
}

}  // namespace ringmaster
