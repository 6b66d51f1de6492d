#include "common/logging/log_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ringmaster {
namespace {

constexpr mode_t kMode = 0666;  // the umask takes from it

int OpenAt(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, kMode);
}

std::string Why(std::string_view what, const std::string& path) {
  return absl::StrCat("cannot ", absl::string_view(what.data(), what.size()),
                      " ", path, ": ", std::strerror(errno));
}

}  // namespace

absl::StatusOr<LogFile> LogFile::Open(LogFileOptions options) {
  const int fd = OpenAt(options.path);
  if (fd < 0) return absl::InvalidArgumentError(Why("append to", options.path));
  return LogFile(std::move(options), fd);
}

LogFile::LogFile(LogFile&& other) noexcept
    : options_(other.options_),
      fd_(std::exchange(other.fd_, -1)),
      is_torn_(other.is_torn_) {}

LogFile::~LogFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status LogFile::Append(std::string_view line) {
  RotateIfFull();
  std::string text;
  if (is_torn_) text = "\n";
  text.append(line);
  const ssize_t written = write(fd_, text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) {
    is_torn_ = false;
    return absl::OkStatus();
  }
  is_torn_ = is_torn_ || written > 0;
  if (written >= 0) errno = ENOSPC;
  return absl::UnavailableError(Why("write to", options_.path));
}

absl::Status LogFile::Reopen() {
  const int fd = OpenAt(options_.path);
  if (fd < 0) return absl::UnavailableError(Why("reopen", options_.path));
  close(std::exchange(fd_, fd));
  is_torn_ = false;
  return absl::OkStatus();
}

bool LogFile::IsCurrent(const struct stat& open) const {
  struct stat named = {};
  return stat(options_.path.c_str(), &named) == 0 &&
         named.st_ino == open.st_ino && named.st_dev == open.st_dev;
}

void LogFile::RotateIfFull() {
  struct stat open = {};
  if (fstat(fd_, &open) != 0 || !S_ISREG(open.st_mode)) return;
  if (!IsCurrent(open)) {
    // If that fails, the old file has the line.
    (void)Reopen();
    return;
  }
  if (options_.max_bytes == 0 || open.st_size < options_.max_bytes) return;
  // Whoever has the lock of the full file rotates it. A log must not wait: the
  // others append to it until they see that it has been renamed.
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0) return;
  if (IsCurrent(open)) {
    const auto name = [this](int i) {
      return i == 0 ? options_.path : absl::StrCat(options_.path, ".", i);
    };
    for (int i = options_.max_rotated; i > 0; --i)
      (void)std::rename(name(i - 1).c_str(), name(i).c_str());
  }
  // Ends the lock; in a directory that may not be written to, it goes on as it
  // was.
  if (!Reopen().ok()) (void)flock(fd_, LOCK_UN);
}

}  // namespace ringmaster
