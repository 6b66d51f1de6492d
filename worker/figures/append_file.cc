#include "worker/figures/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/sync_names.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

constexpr mode_t kFileMode = 0666;  // less the umask

// Copies the first `bytes` bytes; false with errno set if that fails.
bool CopyStart(int from, int to, int64_t bytes) {
  std::vector<char> piece(size_t{1} << 16);
  while (bytes > 0) {
    const size_t wanted = std::min(piece.size(), static_cast<size_t>(bytes));
    const ssize_t got = read(from, piece.data(), wanted);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = EIO;  // shorter than it was a moment ago
    if (got <= 0) return false;
    for (ssize_t done = 0; done < got;) {
      const ssize_t written =
          write(to, piece.data() + done, static_cast<size_t>(got - done));
      if (written < 0 && errno != EINTR) return false;
      done += std::max<ssize_t>(written, 0);
    }
    bytes -= got;
  }
  return true;
}

// Opens it to append. A pipe without a reader is an error (ENXIO), and not waited for.
UniqueFd OpenToAppend(const std::string& path, int flags, mode_t mode) {
  UniqueFd fd = ProcessFiles().OpenFile(
      path, O_WRONLY | O_APPEND | O_NONBLOCK | flags, mode);
  // A pipe's reader may be slower than the figures.
  if (fd.is_open() && fcntl(fd.get(), F_SETFL, O_APPEND) != 0) {
    const int error = errno;
    fd.Reset();
    errno = error;
  }
  return fd;
}

// The file that `path` leads to, over links; it need not be there.
std::string TargetOf(const std::string& path) {
  std::filesystem::path target = path;
  // As many as the kernel follows (path_resolution(7)).
  for (int links = 0; links < 40; ++links) {
    const std::optional<std::string> next =
        ProcessFiles().ReadLink(target.string());
    if (!next.has_value()) break;
    target = target.parent_path() / *next;
  }
  const std::filesystem::path directory =
      ProcessFiles().Canonical(DirectoryOf(target.string()));
  return (directory / target.filename()).string();
}

}  // namespace

absl::Status FiguresError(int error, FileAccess access, const std::string& path,
                          const std::string& what) {
  return error == EXDEV ? ProcessFiles().Refusal(path, access)
                        : absl::ErrnoToStatus(error, what);
}

absl::StatusOr<AppendFile> AppendFile::Open(std::string path, int flags) {
  UniqueFd fd = OpenToAppend(path, flags, kFileMode);
  struct stat existing {};
  if (!fd.is_open() || fstat(fd.get(), &existing) != 0) {
    return FiguresError(errno, FileAccess::kWrite, path,
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

std::string AppendFile::RotatedName(const std::string& path) {
  return absl::StrCat(TargetOf(path), std::string(kRotated));
}

absl::StatusOr<AppendFile> AppendFile::TakeOver(const std::string& path,
                                                int64_t keep_bytes) {
  const std::string old = TargetOf(path);
  const std::string next = absl::StrCat(old, ".next");
  const UniqueFd from = ProcessFiles().OpenFile(old, O_RDONLY);
  struct stat existing {};
  if (!from.is_open() || fstat(from.get(), &existing) != 0) {
    return FiguresError(errno, FileAccess::kRead, path,
                        absl::StrCat("cannot read ", path));
  }
  UniqueFd to = OpenToAppend(next, O_CREAT | O_TRUNC, existing.st_mode & 07777);
  if (!to.is_open() || !CopyStart(from.get(), to.get(), keep_bytes) ||
      ProcessFiles().Rename(next, old) != 0) {
    const int error = errno;
    if (to.is_open()) (void)ProcessFiles().Unlink(next);
    return FiguresError(error, FileAccess::kWrite, path,
                        absl::StrCat("cannot take over ", path));
  }
  return AppendFile(path, std::move(to), keep_bytes);
}

void AppendFile::Append(std::string_view unit) {
  if (fd_.is_open()) buffer_.append(unit);
}

absl::Status AppendFile::CheckSoleWriter() {
  struct stat now {};
  if (fstat(fd_.get(), &now) != 0) return absl::OkStatus();
  // Devices have no length, and pipes no name.
  const bool is_replaced = S_ISREG(now.st_mode) && now.st_nlink == 0;
  if (!is_replaced && now.st_size == size_bytes_) return absl::OkStatus();
  fd_.Reset();
  buffer_.clear();
  if (is_replaced) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_,
                     " was taken over by another process, which writes "
                     "it now; this one no longer does"));
  }
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

absl::Status AppendFile::Rotate() {
  struct stat now {};
  if (fstat(fd_.get(), &now) != 0 || !S_ISREG(now.st_mode))
    return absl::OkStatus();
  RETURN_IF_ERROR(CheckSoleWriter());
  const std::string target = TargetOf(path_);
  if (ProcessFiles().Rename(target, RotatedName(path_)) != 0)
    return GiveUp(errno);
  UniqueFd next = ProcessFiles().OpenFile(
      target, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, now.st_mode & 07777);
  if (!next.is_open()) return GiveUp(errno);
  fd_ = std::move(next);
  size_bytes_ = 0;
  return absl::OkStatus();
}

absl::Status AppendFile::GiveUp(int error) {
  // If even this fails, readers find a cut unit at the end, as after a crash.
  (void)!ftruncate(fd_.get(), size_bytes_);
  fd_.Reset();
  buffer_.clear();
  return FiguresError(
      error, FileAccess::kWrite, path_,
      absl::StrCat("cannot write ", path_,
                   ", so it gets no more figures; training goes on"));
}

}  // namespace ringmaster
