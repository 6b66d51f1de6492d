#include "worker/checkpoint/first_text.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/files/file_roots.h"
#include "common/files/sync_names.h"
#include "common/secrets/random.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "common/transport/unique_fd.h"
#include "worker/checkpoint/durable_file.h"
#include "worker/checkpoint/file_error.h"

namespace ringmaster {
namespace {

constexpr absl::Duration kLockPatience = absl::Seconds(2);
constexpr absl::Duration kLockInterval = absl::Milliseconds(10);

absl::Status WriteNew(const std::string& path, const std::string& text) {
  const UniqueFd fd =
      ProcessFiles().OpenFile(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
  if (!fd.is_open()) return FileError("create", path, errno);
  const ssize_t count = write(fd.get(), text.data(), text.size());
  // A write that is cut short sets no errno: the disk is full.
  if (count != static_cast<ssize_t>(text.size()))
    return FileError("write", path, count < 0 ? errno : ENOSPC);
  return fsync(fd.get()) == 0 ? absl::OkStatus()
                              : FileError("sync", path, errno);
}

// Takes the lock of `fd`. Whoever does as here has it for as long as a rename takes; one
// that another program holds must not hold up a job's start.
absl::Status Lock(const UniqueFd& fd, const std::string& path) {
  const absl::Time deadline = absl::Now() + kLockPatience;
  while (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    // A file system without locks: only the rename is left to tell who is first.
    if (errno != EWOULDBLOCK) return absl::OkStatus();
    if (absl::Now() > deadline) return FileError("lock", path, ETIMEDOUT);
    absl::SleepFor(kLockInterval);
  }
  return absl::OkStatus();
}

// Puts the file `own` at `path`, unless somebody was faster. An empty file there is
// replaced by who holds its lock.
absl::Status PutInPlace(const std::string& own, const std::string& path) {
  if (ProcessFiles().Link(own, path) == 0) return absl::OkStatus();
  if (errno != EEXIST) return FileError("create", path, errno);
  const UniqueFd present = ProcessFiles().OpenFile(path, O_RDONLY);
  if (!present.is_open()) return FileError("read", path, errno);
  RETURN_IF_ERROR(Lock(present, path));
  struct stat locked = {};
  struct stat named = {};
  if (fstat(present.get(), &locked) != 0 ||
      ProcessFiles().Stat(path, named) != 0)
    return FileError("read", path, errno);
  if (locked.st_ino != named.st_ino || named.st_size != 0)
    return absl::OkStatus();
  return ProcessFiles().Rename(own, path) == 0
             ? absl::OkStatus()
             : FileError("create", path, errno);
}

}  // namespace

absl::StatusOr<std::string> ReadFirstText(const std::string& path) {
  const UniqueFd fd = ProcessFiles().OpenFile(path, O_RDONLY);
  if (!fd.is_open() && errno == ENOENT) return std::string();
  if (!fd.is_open()) return FileError("read", path, errno);
  std::string text(kMaxFirstTextBytes, '\0');
  const ssize_t count = read(fd.get(), text.data(), text.size());
  if (count < 0) return FileError("read", path, errno);
  text.resize(static_cast<size_t>(count));
  return text;
}

absl::StatusOr<std::string> KeepFirstText(
    const std::string& path, const std::string& text,
    const std::function<absl::Status()>& when_durable) {
  // Written under another name first, so that nobody reads half of it.
  const std::string own = absl::StrCat(path, "-", RandomIncarnation());
  absl::Status status = WriteNew(own, text);
  if (status.ok()) status = Annotate(when_durable(), path);
  if (status.ok()) status = PutInPlace(own, path);
  (void)ProcessFiles().Unlink(own);
  if (status.ok()) status = SyncDirectory(DirectoryOf(path));
  RETURN_IF_ERROR(status);
  ASSIGN_OR_RETURN(std::string kept, ReadFirstText(path));
  if (kept.empty()) {
    return absl::DataLossError(absl::StrCat(path, " stays empty; remove it"));
  }
  return kept;
}

}  // namespace ringmaster
