#include "server/coordinator/journal/state_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/fail_point/fail_point.h"
#include "common/files/sync_names.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"

namespace ringmaster::coordinator {
namespace {

constexpr mode_t kDirectoryMode = 0700;
constexpr mode_t kFileMode = 0600;

absl::Status CannotUse(const std::string& path, const char* what, int error) {
  const std::string message = absl::StrCat("--state_dir=", path, " cannot be ",
                                           what, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT || error == EIO) {
    return absl::UnavailableError(message);
  }
  return WithExitCode(absl::PermissionDeniedError(
                          absl::StrCat(message,
                                       "; name a directory that this user can "
                                       "write")),
                      ExitCode::kUsage);
}

// Makes the entries of the directory `path` durable.
absl::Status SyncDirectory(const std::string& path) {
  absl::Status status = FAIL_POINT("journal.sync_directory");
  if (!status.ok()) return status;
  const int error = SyncNames(path);
  return error == 0 ? absl::OkStatus() : CannotUse(path, "synced", error);
}

// mkdir -p, durably: a directory whose name is lost in a power failure takes the
// journal with it.
absl::Status CreateDirectories(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (mkdir(part.c_str(), kDirectoryMode) == 0) {
      RETURN_IF_ERROR(SyncDirectory(DirectoryOf(part)));
    } else if (errno != EEXIST) {
      const int error = errno;
      struct stat existing {};
      // Parents may be read-only or automounted, as long as they are there.
      if (stat(part.c_str(), &existing) != 0 || !S_ISDIR(existing.st_mode)) {
        return CannotUse(path, "created", error);
      }
    }
    if (end == std::string::npos) return absl::OkStatus();
  }
}

std::string ThisProcess() {
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  return absl::StrCat("pid ", getpid(), " on host ", host);
}

std::string ReadHolder(int fd) {
  char text[512] = {};
  const ssize_t length = pread(fd, text, sizeof(text) - 1, 0);
  if (length <= 0) return "another process";
  return std::string(absl::StripSuffix(
      absl::string_view(text, static_cast<size_t>(length)), "\n"));
}

absl::Status InUse(const std::string& path, const std::string& holder) {
  return WithExitCode(absl::FailedPreconditionError(absl::StrCat(
                          "state directory ", path, " is in use by ", holder)),
                      ExitCode::kUsage);
}

absl::Status WriteHolder(const std::string& path, int fd) {
  const std::string text = ThisProcess() + "\n";
  if (ftruncate(fd, 0) != 0 || pwrite(fd, text.data(), text.size(), 0) !=
                                   static_cast<ssize_t>(text.size())) {
    return CannotUse(path, "written", errno);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StateDirectory> StateDirectory::Acquire(
    const std::string& path) {
  if (path.empty()) {
    return WithExitCode(absl::InvalidArgumentError("--state_dir is empty"),
                        ExitCode::kUsage);
  }
  RETURN_IF_ERROR(CreateDirectories(path));
  const std::string lock_path = path + "/" + kLockFile;
  const int fd =
      open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kFileMode);
  if (fd < 0) return CannotUse(path, "written", errno);
  StateDirectory directory(path, fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return InUse(path, ReadHolder(fd));
    return CannotUse(path, "locked", errno);
  }
  RETURN_IF_ERROR(WriteHolder(path, fd));
  return directory;
}

StateDirectory::~StateDirectory() {
  if (lock_fd_ >= 0) close(lock_fd_);
}

StateDirectory::StateDirectory(StateDirectory&& other) noexcept
    : path_(std::move(other.path_)),
      lock_fd_(std::exchange(other.lock_fd_, -1)) {}

}  // namespace ringmaster::coordinator
