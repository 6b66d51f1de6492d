// LogFile appends lines to a file that is rotated by size: FILE.1 is the
// newest of the full ones, FILE.2 the one before.
//
// Several processes may append to one file, as the slots of a worker do: a line
// is one write, one of them rotates, and the others go on in the new file. So
// they do if something else, like logrotate, renames or removes the file. No
// line is lost then, and those of a process stay in order.
//
// Not thread-safe.
#ifndef RINGMASTER_COMMON_LOGGING_LOG_FILE_H_
#define RINGMASTER_COMMON_LOGGING_LOG_FILE_H_

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ringmaster {

struct LogFileOptions {
  std::string path = {};
  int64_t max_bytes = 0;  // of a file that is appended to; 0: it is not rotated
  int max_rotated = 1;    // full files that are kept, at least 1
};

class LogFile {
 public:
  // Opens the file, or makes it. INVALID_ARGUMENT if that fails.
  [[nodiscard]] static absl::StatusOr<LogFile> Open(LogFileOptions options);
  LogFile(LogFile&& other) noexcept;
  LogFile& operator=(LogFile&&) = delete;
  ~LogFile();

  // Appends `line`, which ends with a line feed. UNAVAILABLE if it could not be
  // written (a full disk): the line is lost, and the next one is tried anew.
  [[nodiscard]] absl::Status Append(std::string_view line);

  // Goes on in the file that has the path now, or in a new one; in the present
  // one if that fails (UNAVAILABLE).
  [[nodiscard]] absl::Status Reopen();

 private:
  LogFile(LogFileOptions options, int fd)
      : options_(std::move(options)), fd_(fd) {}

  // Whether the path still leads to the file that is open.
  [[nodiscard]] bool IsCurrent(const struct stat& open) const;
  void RotateIfFull();

  const LogFileOptions options_;
  int fd_;
  // The last write ended within a line.
  bool is_torn_ = false;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_LOGGING_LOG_FILE_H_
