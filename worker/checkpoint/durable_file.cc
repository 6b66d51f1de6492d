#include "worker/checkpoint/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/files/file_roots.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "worker/checkpoint/file_error.h"

namespace ringmaster {
namespace {

constexpr mode_t kFileMode = 0644;
// Less what the process masks, as for any directory that a program makes.
constexpr mode_t kDirectoryMode = 0777;
// Dirty bytes that may gather before the kernel is told to write them.
constexpr int64_t kWritebackBytes = int64_t{16} << 20;

// Returns true for the errors of sync_file_range on file systems and in
// sandboxes that lack it.
bool IsUnsupported(int error) {
  return error == ENOSYS || error == EINVAL || error == ESPIPE ||
         error == EOPNOTSUPP || error == EPERM;
}

}  // namespace

DurableFile::DurableFile(const std::string& path, UniqueFd fd,
                         const CancelToken* cancel, DiskProgress* progress)
    : path_(path), fd_(std::move(fd)), cancel_(cancel), progress_(progress) {
  gathered_.reserve(kWriteBytes);
}

absl::StatusOr<DurableFile> DurableFile::Create(const std::string& path,
                                                const CancelToken* cancel,
                                                DiskProgress* progress) {
  RETURN_IF_ERROR(Annotate(FAIL_POINT("checkpoint.open"), path));
  UniqueFd fd =
      ProcessFiles().OpenFile(path, O_WRONLY | O_CREAT | O_EXCL, kFileMode);
  if (!fd.is_open()) return FileError("create", path, errno);
  return DurableFile(path, std::move(fd), cancel, progress);
}

absl::Status DurableFile::Append(std::string_view text) {
  return Append(absl::MakeConstSpan(
      reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

absl::Status DurableFile::Append(absl::Span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    if (gathered_.empty() && bytes.size() >= kWriteBytes) {
      RETURN_IF_ERROR(Write(bytes.first(kWriteBytes)));
      bytes.remove_prefix(kWriteBytes);
      continue;
    }
    const size_t count = std::min(bytes.size(), kWriteBytes - gathered_.size());
    gathered_.insert(gathered_.end(), bytes.begin(), bytes.begin() + count);
    bytes.remove_prefix(count);
    if (gathered_.size() == kWriteBytes) RETURN_IF_ERROR(WriteGathered());
  }
  return absl::OkStatus();
}

absl::Status DurableFile::WriteGathered() {
  RETURN_IF_ERROR(Write(gathered_));
  gathered_.clear();
  return absl::OkStatus();
}

absl::Status DurableFile::Write(absl::Span<const uint8_t> bytes) {
  if (cancel_ != nullptr && cancel_->is_cancelled()) {
    return absl::AbortedError(
        absl::StrCat("writing ", path_, " was cancelled"));
  }
  RETURN_IF_ERROR(Annotate(FAIL_POINT("checkpoint.write"), path_));
  digest_.Add(bytes);
  while (!bytes.empty()) {
    const ssize_t count = write(fd_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError("write", path_, errno);
    bytes.remove_prefix(static_cast<size_t>(count));
    written_bytes_ += count;
    if (progress_ != nullptr) progress_->Add(count);
  }
  if (written_bytes_ - begun_bytes_ < kWritebackBytes) return absl::OkStatus();
  return PaceWriteback();
}

// Begins to write the newest piece to the disk, and waits for the one before.
absl::Status DurableFile::PaceWriteback() {
  // A hint: where it does not work, the fsync takes longer.
  (void)sync_file_range(fd_.get(), begun_bytes_, written_bytes_ - begun_bytes_,
                        SYNC_FILE_RANGE_WRITE);
  const int64_t begin = std::exchange(awaited_bytes_, begun_bytes_);
  begun_bytes_ = written_bytes_;
  if (awaited_bytes_ == begin) return absl::OkStatus();
  RETURN_IF_ERROR(Annotate(FAIL_POINT("checkpoint.writeback"), path_));
  const int result =
      sync_file_range(fd_.get(), begin, awaited_bytes_ - begin,
                      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                          SYNC_FILE_RANGE_WAIT_AFTER);
  // A failure to write counts: the caller must learn of it, and a later fsync
  // would not tell again.
  if (result != 0 && !IsUnsupported(errno)) {
    return FileError("write", path_, errno);
  }
  return absl::OkStatus();
}

absl::StatusOr<FileDigest> DurableFile::Close() {
  RETURN_IF_ERROR(WriteGathered());
  RETURN_IF_ERROR(Annotate(FAIL_POINT("checkpoint.fsync"), path_));
  // Not tried again after a failure: the kernel may have dropped the pages and
  // would then say that all is well.
  if (fsync(fd_.get()) != 0) return FileError("sync", path_, errno);
  fd_.Reset();
  return digest_.Finish();
}

absl::Status CreateDirectories(const std::string& path) {
  const auto is_directory = [&path] {
    struct stat found = {};
    return ProcessFiles().Stat(path, found) == 0 && S_ISDIR(found.st_mode);
  };
  errno = 0;
  if (path.empty() || is_directory()) return absl::OkStatus();
  // Nor may what it is in be seen.
  if (errno == EXDEV) return FileError("create", path, errno);
  const std::string parent = std::filesystem::path(path).parent_path().string();
  // A slash at the end has a parent that is the same directory.
  RETURN_IF_ERROR(CreateDirectories(parent));
  if (ProcessFiles().MakeDirectory(path, kDirectoryMode) == 0) {
    SyncDirectory(parent.empty() ? "." : parent).IgnoreError();
    return absl::OkStatus();
  }
  // Somebody else may have made it; what is no directory is in the way.
  const int error = errno;
  if (error == EEXIST && is_directory()) return absl::OkStatus();
  return FileError("create", path, error == EEXIST ? ENOTDIR : error);
}

absl::Status SyncDirectory(const std::string& path) {
  RETURN_IF_ERROR(Annotate(FAIL_POINT("checkpoint.fsync_directory"), path));
  const UniqueFd fd = ProcessFiles().OpenFile(path, O_RDONLY | O_DIRECTORY);
  if (!fd.is_open()) return FileError("open", path, errno);
  if (fsync(fd.get()) != 0) return FileError("sync", path, errno);
  return absl::OkStatus();
}

}  // namespace ringmaster
