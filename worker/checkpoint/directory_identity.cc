#include "worker/checkpoint/directory_identity.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <optional>
#include <random>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "common/transport/unique_fd.h"
#include "worker/checkpoint/durable_file.h"
#include "worker/checkpoint/file_error.h"

namespace ringmaster {
namespace {

// Returns the number in the file at `path`; nothing if it is missing or empty.
absl::StatusOr<std::optional<int64_t>> ReadIdentity(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open() && errno == ENOENT) return std::optional<int64_t>();
  if (!fd.is_open()) return FileError("read", path, errno);
  char text[64] = {};
  const ssize_t count = read(fd.get(), text, sizeof(text) - 1);
  if (count < 0) return FileError("read", path, errno);
  if (count == 0) return std::optional<int64_t>();
  int64_t identity = 0;
  if (absl::SimpleAtoi(text, &identity) && identity > 0)
    return std::make_optional(identity);
  return absl::DataLossError(absl::StrCat(path, " holds no number; remove it"));
}

absl::Status WriteNew(const std::string& path, const std::string& text) {
  const UniqueFd fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd.is_open()) return FileError("create", path, errno);
  const ssize_t count = write(fd.get(), text.data(), text.size());
  // A write that is cut short sets no errno: the disk is full.
  if (count != static_cast<ssize_t>(text.size()))
    return FileError("write", path, count < 0 ? errno : ENOSPC);
  return fsync(fd.get()) == 0 ? absl::OkStatus()
                              : FileError("sync", path, errno);
}

// Puts the file `own` at `path`, unless somebody was faster. An empty file there is
// replaced by who holds its lock.
absl::Status PutInPlace(const std::string& own, const std::string& path) {
  if (link(own.c_str(), path.c_str()) == 0) return absl::OkStatus();
  if (errno != EEXIST) return FileError("create", path, errno);
  const UniqueFd present(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!present.is_open()) return FileError("read", path, errno);
  (void)flock(present.get(), LOCK_EX);
  struct stat locked = {};
  struct stat named = {};
  if (fstat(present.get(), &locked) != 0 || stat(path.c_str(), &named) != 0)
    return FileError("read", path, errno);
  if (locked.st_ino != named.st_ino || named.st_size != 0)
    return absl::OkStatus();
  return rename(own.c_str(), path.c_str()) == 0
             ? absl::OkStatus()
             : FileError("create", path, errno);
}

// Draws a number and writes it to `path`, durably, unless somebody was faster.
absl::Status DrawIdentity(const std::string& directory,
                          const std::string& path) {
  // Not Abseil's generator: many threads begin here at once, and the pool that
  // seeds it is in a library that ThreadSanitizer cannot follow.
  std::random_device random;
  const int64_t identity = std::uniform_int_distribution<int64_t>(
      1, std::numeric_limits<int64_t>::max())(random);
  // Written under another name first, so that nobody reads half of it.
  const std::string own = absl::StrCat(path, "-", identity);
  absl::Status status = WriteNew(own, absl::StrCat(identity, "\n"));
  if (status.ok()) status = Annotate(FAIL_POINT("checkpoint.identity"), path);
  if (status.ok()) status = PutInPlace(own, path);
  unlink(own.c_str());
  if (status.ok()) status = SyncDirectory(directory);
  return status;
}

}  // namespace

absl::StatusOr<int64_t> DirectoryIdentity(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/.directory-identity");
  RETURN_IF_ERROR(CreateDirectories(directory));
  ASSIGN_OR_RETURN(std::optional<int64_t> identity, ReadIdentity(path));
  if (!identity.has_value()) {
    RETURN_IF_ERROR(DrawIdentity(directory, path));
    ASSIGN_OR_RETURN(identity, ReadIdentity(path));
  }
  if (identity.has_value()) return *identity;
  return absl::DataLossError(absl::StrCat(path, " stays empty; remove it"));
}

absl::Status CheckWritable(const std::string& directory) {
  RETURN_IF_ERROR(DirectoryIdentity(directory).status());
  return access(directory.c_str(), W_OK | X_OK) == 0
             ? absl::OkStatus()
             : FileError("write to", directory, errno);
}

}  // namespace ringmaster
