#include "worker/checkpoint/directory_identity.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "worker/checkpoint/file_error.h"

namespace ringmaster {
namespace {

absl::StatusOr<int64_t> ReadIdentity(const std::string& path) {
  std::ifstream file(path);
  int64_t identity = 0;
  if (file >> identity && identity != 0) return identity;
  return absl::DataLossError(absl::StrCat(path, " holds no number; remove it"));
}

}  // namespace

absl::StatusOr<int64_t> DirectoryIdentity(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/.directory-identity");
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return FileError("create", directory, error.value());
  if (access(path.c_str(), F_OK) == 0) return ReadIdentity(path);
  absl::BitGen random;
  const int64_t identity = absl::Uniform<int64_t>(
      absl::IntervalClosed, random, 1, std::numeric_limits<int64_t>::max());
  // Written under another name first, so that nobody reads half of it; link
  // fails where somebody was faster.
  const std::string own = absl::StrCat(path, "-", identity);
  const int fd =
      open(own.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return FileError("create", own, errno);
  const std::string text = absl::StrCat(identity, "\n");
  const ssize_t count = write(fd, text.data(), text.size());
  const bool is_written = count == static_cast<ssize_t>(text.size());
  // A write that is cut short sets no errno: the disk is full.
  const int write_error = count < 0 ? errno : ENOSPC;
  close(fd);
  const bool is_linked =
      is_written && (link(own.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const int link_error = errno;
  unlink(own.c_str());
  if (!is_written) return FileError("write", own, write_error);
  if (!is_linked) return FileError("create", path, link_error);
  return ReadIdentity(path);
}

}  // namespace ringmaster
