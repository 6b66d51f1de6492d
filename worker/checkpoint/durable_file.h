// DurableFile writes a new file from beginning to end, and says OK only when
// its bytes are on the disk.
//
// Small appends are gathered; the disk sees writes of kWriteBytes. Bytes are
// hashed on the way. They go to the disk as they come, a piece behind, so that
// little is left for the fsync at the end, and the appended bytes show how far
// the disk is.
// A file that was not closed, or whose Close failed, is left for its owner to
// remove (a checkpoint's files lie in a temporary directory).
// Fail points: checkpoint.open, checkpoint.write, checkpoint.writeback,
// checkpoint.fsync, checkpoint.fsync_directory.
// Thread-safety: thread-compatible.
// Example:
//   ASSIGN_OR_RETURN(DurableFile file, DurableFile::Create(path));
//   RETURN_IF_ERROR(file.Append(bytes));
//   ASSIGN_OR_RETURN(FileDigest digest, file.Close());
#ifndef RINGMASTER_WORKER_CHECKPOINT_DURABLE_FILE_H_
#define RINGMASTER_WORKER_CHECKPOINT_DURABLE_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/transport/cancel_token.h"
#include "common/transport/unique_fd.h"
#include "worker/checkpoint/disk_progress.h"
#include "worker/checkpoint/file_digest.h"

namespace ringmaster {

class DurableFile {
 public:
  static constexpr size_t kWriteBytes = size_t{4} << 20;

  // Creates `path`, which must not exist. `cancel` and `progress`, which counts
  // the bytes written, may be null and outlive the file. This and the others
  // return the errors of FileError, with the path, and
  //   ABORTED  `cancel` was cancelled
  [[nodiscard]] static absl::StatusOr<DurableFile> Create(
      const std::string& path, const CancelToken* cancel = nullptr,
      DiskProgress* progress = nullptr);

  // `bytes` are not needed after the call.
  [[nodiscard]] absl::Status Append(absl::Span<const uint8_t> bytes);
  [[nodiscard]] absl::Status Append(std::string_view text);
  // Writes what is left, syncs and closes. Nothing else may be called after it.
  [[nodiscard]] absl::StatusOr<FileDigest> Close();

  const std::string& path() const { return path_; }

 private:
  DurableFile(const std::string& path, UniqueFd fd, const CancelToken* cancel,
              DiskProgress* progress);
  absl::Status WriteGathered();
  absl::Status Write(absl::Span<const uint8_t> bytes);
  absl::Status PaceWriteback();

  std::string path_;
  UniqueFd fd_;
  const CancelToken* cancel_;
  DiskProgress* progress_;
  std::vector<uint8_t> gathered_;  // not yet written; never over kWriteBytes
  DigestBuilder digest_;
  int64_t written_bytes_ = 0;
  int64_t begun_bytes_ = 0;    // whose way to the disk has begun
  int64_t awaited_bytes_ = 0;  // whose way has ended
};

// Makes the directory `path` and those that it is in, as far as they are missing; each
// new name is durable if its parent lets us say so. Errors are FileError's.
[[nodiscard]] absl::Status CreateDirectories(const std::string& path);

// Makes the names in directory `path` durable. Errors are FileError's.
[[nodiscard]] absl::Status SyncDirectory(const std::string& path);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_CHECKPOINT_DURABLE_FILE_H_
