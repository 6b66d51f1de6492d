// InputFile reads a regular file at any offset.
//
// Reads are system calls rather than accesses to a mapping, so that a file that
// shrinks meanwhile, or a disk that fails, is an error and not a signal.
// Thread-safety: thread-safe once open.
#ifndef RINGMASTER_WORKER_CHECKPOINT_INPUT_FILE_H_
#define RINGMASTER_WORKER_CHECKPOINT_INPUT_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/transport/cancel_token.h"
#include "common/transport/unique_fd.h"
#include "worker/checkpoint/disk_progress.h"
#include "worker/checkpoint/file_digest.h"

namespace ringmaster {

class InputFile {
 public:
  // `progress` counts the bytes read; it may be null, else outlives the file.
  // Errors are FileError's, and INVALID_ARGUMENT if it is not a regular file.
  [[nodiscard]] static absl::StatusOr<InputFile> Open(
      const std::string& path, DiskProgress* progress = nullptr);

  const std::string& path() const { return path_; }
  // The size at the time of Open.
  int64_t size_bytes() const { return size_bytes_; }

  // Fills `into` with the bytes from `offset` on.
  //   DATA_LOSS  the file ends before
  [[nodiscard]] absl::Status ReadAt(int64_t offset,
                                    absl::Span<uint8_t> into) const;

  // The whole file as text. INVALID_ARGUMENT: it is longer than `max_bytes`.
  [[nodiscard]] absl::StatusOr<std::string> ReadText(int64_t max_bytes) const;

  // Reads all of it and compares.
  //   DATA_LOSS  names the first bytes that are missing, too many or changed
  //   ABORTED    `cancel`, which may be null, was cancelled
  [[nodiscard]] absl::Status CheckAgainst(
      const FileDigest& expected, const CancelToken* cancel = nullptr) const;

 private:
  InputFile(const std::string& path, UniqueFd fd, int64_t size_bytes,
            DiskProgress* progress);

  std::string path_;
  UniqueFd fd_;
  int64_t size_bytes_;
  DiskProgress* progress_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_CHECKPOINT_INPUT_FILE_H_
