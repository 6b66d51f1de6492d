#include "common/files/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/files/sync_names.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

absl::Status Refused(const std::string& path, int error) {
  return absl::InvalidArgumentError(
      absl::StrCat("cannot write the file ", path, ": ", std::strerror(error)));
}

absl::Status Exists(const std::string& path) {
  return absl::AlreadyExistsError(
      absl::StrCat(path,
                   " is there already: give another --out, or --force to "
                   "replace it"));
}

absl::Status WriteAll(int descriptor, std::string_view content,
                      const std::string& path) {
  while (!content.empty()) {
    const ssize_t count = ::write(descriptor, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Refused(path, errno);
    content.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

// Some file systems report only now that they are full.
absl::Status Sync(int descriptor, const std::string& path) {
  return ::fsync(descriptor) == 0 ? absl::OkStatus() : Refused(path, errno);
}

}  // namespace

absl::Status NewFile::Check() const {
  return !may_replace_ && ::access(path_.c_str(), F_OK) == 0 ? Exists(path_)
                                                             : absl::OkStatus();
}

absl::Status NewFile::Open(int& descriptor) {
  const std::string part = absl::StrCat(path_, ".", ::getpid(), ".part");
  MutexLock lock(mutex_);
  if (is_given_up_) return absl::CancelledError("given up");
  descriptor =
      ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode_);
  if (descriptor < 0) return Refused(path_, errno);
  part_ = part;
  return absl::OkStatus();
}

absl::Status NewFile::Rename() {
  MutexLock lock(mutex_);
  if (is_given_up_) return absl::CancelledError("given up");
  if (may_replace_) {
    if (std::rename(part_.c_str(), path_.c_str()) != 0)
      return Refused(path_, errno);
    part_.clear();
    return absl::OkStatus();
  }
  // Unlike rename, this refuses a name that somebody has taken meanwhile.
  if (::renameat2(AT_FDCWD, part_.c_str(), AT_FDCWD, path_.c_str(),
                  RENAME_NOREPLACE) == 0) {
    part_.clear();
    return absl::OkStatus();
  }
  // File systems that cannot rename so can link (NFS); GiveUp removes the other
  // name.
  if (errno == EINVAL && ::link(part_.c_str(), path_.c_str()) == 0)
    return absl::OkStatus();
  return errno == EEXIST ? Exists(path_) : Refused(path_, errno);
}

absl::StatusOr<std::string> NewFile::Create() {
  RETURN_IF_ERROR(Check());
  int descriptor = -1;
  RETURN_IF_ERROR(Open(descriptor));
  ::close(descriptor);
  MutexLock lock(mutex_);
  return part_;
}

absl::Status NewFile::Publish() {
  int descriptor = -1;
  {
    MutexLock lock(mutex_);
    if (is_given_up_) return absl::CancelledError("given up");
    descriptor = ::open(part_.c_str(), O_RDONLY | O_CLOEXEC);
  }
  absl::Status status =
      descriptor < 0 ? Refused(path_, errno) : Sync(descriptor, path_);
  if (descriptor >= 0) ::close(descriptor);
  return Finish(status);
}

absl::Status NewFile::Finish(absl::Status status) {
  if (status.ok()) status = Rename();
  GiveUp();
  RETURN_IF_ERROR(status);
  const int error = SyncNames(DirectoryOf(path_));
  return error == 0 ? absl::OkStatus() : Refused(path_, error);
}

absl::Status NewFile::Write(std::string_view content) {
  RETURN_IF_ERROR(Check());
  int descriptor = -1;
  RETURN_IF_ERROR(Open(descriptor));
  absl::Status status = WriteAll(descriptor, content, path_);
  if (status.ok()) status = Sync(descriptor, path_);
  ::close(descriptor);
  return Finish(status);
}

void NewFile::GiveUp() {
  MutexLock lock(mutex_);
  is_given_up_ = true;
  if (!part_.empty()) ::unlink(part_.c_str());
  part_.clear();
}

}  // namespace ringmaster
