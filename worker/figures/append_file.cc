#include "worker/figures/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

constexpr mode_t kFileMode = 0666;  // less the umask

}  // namespace

absl::StatusOr<AppendFile> AppendFile::Open(std::string path, int flags) {
  UniqueFd fd(
      open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | flags, kFileMode));
  struct stat existing {};
  if (!fd.is_open() || fstat(fd.get(), &existing) != 0) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("cannot open ", path, " to write"));
  }
  return AppendFile(std::move(path), std::move(fd), existing.st_size);
}

absl::StatusOr<AppendFile> AppendFile::Create(std::string path) {
  return Open(std::move(path), O_CREAT | O_EXCL);
}

absl::StatusOr<AppendFile> AppendFile::OpenOrCreate(std::string path) {
  return Open(std::move(path), O_CREAT);
}

absl::Status AppendFile::Truncate(int64_t size_bytes) {
  RM_CHECK(buffer_.empty(), "a file is cut before it grows");
  if (ftruncate(fd_.get(), size_bytes) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot cut ", path_, " to ",
                                                   size_bytes, " bytes"));
  }
  size_bytes_ = size_bytes;
  return absl::OkStatus();
}

void AppendFile::Append(std::string_view unit) {
  if (fd_.is_open()) buffer_.append(unit);
}

absl::Status AppendFile::CheckSoleWriter() {
  struct stat now {};
  if (fstat(fd_.get(), &now) != 0 || now.st_size == size_bytes_)
    return absl::OkStatus();
  fd_.Reset();
  buffer_.clear();
  return absl::FailedPreconditionError(absl::StrCat(
      path_, " is ", now.st_size, " bytes long, but this process left it at ",
      size_bytes_, ": another one writes it, so this one no longer does"));
}

absl::Status AppendFile::Flush() {
  if (buffer_.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckSoleWriter());
  std::string_view left = buffer_;
  while (!left.empty()) {
    const ssize_t written = write(fd_.get(), left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return GiveUp(errno);
    left.remove_prefix(static_cast<size_t>(written));
  }
  size_bytes_ += static_cast<int64_t>(buffer_.size());
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status AppendFile::GiveUp(int error) {
  // Where even this fails, readers meet a cut unit at the end, as after a
  // crash.
  (void)!ftruncate(fd_.get(), size_bytes_);
  fd_.Reset();
  buffer_.clear();
  return absl::ErrnoToStatus(
      error, absl::StrCat("cannot write ", path_,
                          ", so it gets no more figures; training goes on"));
}

}  // namespace ringmaster
