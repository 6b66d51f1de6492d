// AppendFile: a file that only grows, is written in batches of whole units
// (lines, records), and gives up quietly when its disk fails.
//
// Append only stores the unit; Flush hands all units to the kernel in one
// write(2), so that a crash leaves whole units and at most one that is cut.
// When a write fails, the file is cut back to the units before it, Flush says
// so once, and from then on both do nothing: figures are not worth a training
// run. The same happens once another process has taken over the file or writes
// to it, which means that this process was stopped, lost its place in the job
// and woke up again. Thread-compatible. Move only.
#ifndef RINGMASTER_WORKER_FIGURES_APPEND_FILE_H_
#define RINGMASTER_WORKER_FIGURES_APPEND_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/file_roots.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

// "`what`: why" for the errno of an operation on the figures at `path`, with
// absl::ErrnoToStatus's code; for EXDEV, which is that of ProcessFiles, its Refusal.
[[nodiscard]] absl::Status FiguresError(int error, FileAccess access,
                                        const std::string& path,
                                        const std::string& what);

class AppendFile {
 public:
  // Makes a new file; ALREADY_EXISTS if `path` is there. This and the errors
  // below are FiguresError's, with the path and the system's words.
  [[nodiscard]] static absl::StatusOr<AppendFile> Create(std::string path);
  // Opens the file at `path`, which is made if it is missing.
  [[nodiscard]] static absl::StatusOr<AppendFile> OpenOrCreate(
      std::string path);

  // Takes over the first `keep_bytes` bytes of the file at `path`, to go on
  // after them. They are copied to a new file that then takes the old one's
  // place, since the process that wrote it may not know yet that it was
  // replaced; nobody sees what it still writes. The old file stays if this
  // fails.
  [[nodiscard]] static absl::StatusOr<AppendFile> TakeOver(
      const std::string& path, int64_t keep_bytes);

  void Append(std::string_view unit);
  [[nodiscard]] absl::Status Flush();

  // Renames the file to RotatedName, in place of the one that had this name,
  // and goes on in a new one. Nothing may be buffered. If this fails, it is as
  // if a write had failed. Without effect on pipes and devices.
  [[nodiscard]] absl::Status Rotate();
  // "FILE.1", beside the file that `path` leads to.
  [[nodiscard]] static std::string RotatedName(const std::string& path);
  static constexpr std::string_view kRotated = ".1";

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] size_t buffered_bytes() const { return buffer_.size(); }
  // The bytes that Flush has written, and those that were there before.
  [[nodiscard]] int64_t size_bytes() const { return size_bytes_; }

 private:
  AppendFile(std::string path, UniqueFd fd, int64_t size_bytes)
      : path_(std::move(path)), fd_(std::move(fd)), size_bytes_(size_bytes) {}

  static absl::StatusOr<AppendFile> Open(std::string path, int flags);
  absl::Status GiveUp(int error);
  // FAILED_PRECONDITION if another process has taken the file over, or has
  // written to it.
  absl::Status CheckSoleWriter();

  std::string path_;
  // Closed once a write has failed.
  UniqueFd fd_;
  // The size of the whole units in the file.
  int64_t size_bytes_;
  std::string buffer_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_FIGURES_APPEND_FILE_H_
