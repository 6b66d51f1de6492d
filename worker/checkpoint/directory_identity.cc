#include "worker/checkpoint/directory_identity.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/files/file_roots.h"
#include "common/secrets/random.h"
#include "common/status/status_macros.h"
#include "common/transport/unique_fd.h"
#include "worker/checkpoint/durable_file.h"
#include "worker/checkpoint/file_error.h"
#include "worker/checkpoint/first_text.h"

namespace ringmaster {
namespace {

std::string FileOf(const std::string& directory) {
  return absl::StrCat(directory, "/.directory-identity");
}

// A positive number.
int64_t Draw() {
  return std::max<int64_t>(1, static_cast<int64_t>(RandomIncarnation() >> 1));
}

}  // namespace

absl::StatusOr<int64_t> DirectoryIdentity(const std::string& directory) {
  const std::string path = FileOf(directory);
  RETURN_IF_ERROR(CreateDirectories(directory));
  ASSIGN_OR_RETURN(std::string text, ReadFirstText(path));
  if (text.empty()) {
    ASSIGN_OR_RETURN(text, KeepFirstText(path, absl::StrCat(Draw(), "\n"), [] {
                       return FAIL_POINT("checkpoint.identity");
                     }));
  }
  int64_t identity = 0;
  if (absl::SimpleAtoi(text, &identity) && identity > 0) return identity;
  return absl::DataLossError(absl::StrCat(path, " holds no number; remove it"));
}

absl::Status CheckWritable(const std::string& directory) {
  RETURN_IF_ERROR(DirectoryIdentity(directory).status());
  const UniqueFd fd =
      ProcessFiles().OpenFile(directory, O_RDONLY | O_DIRECTORY);
  // Asked of what is open: `access` would follow the path anew.
  return fd.is_open() && faccessat(fd.get(), ".", W_OK | X_OK, 0) == 0
             ? absl::OkStatus()
             : FileError("write to", directory, errno);
}

}  // namespace ringmaster
