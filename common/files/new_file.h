// NewFile: a file that is there whole and durable, or not at all.
//
// It is written under a name of its own beside its place. Thread-safe: another
// thread may give it up, as when the user interrupts the program.
#ifndef RINGMASTER_COMMON_FILES_NEW_FILE_H_
#define RINGMASTER_COMMON_FILES_NEW_FILE_H_

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/sync/mutex.h"

namespace ringmaster {

class NewFile {
 public:
  // A file that is at `path` already is kept unless `may_replace`.
  NewFile(std::string path, bool may_replace, mode_t mode = 0666)
      : path_(std::move(path)), may_replace_(may_replace), mode_(mode) {}
  // Removes what is not whole.
  ~NewFile() { GiveUp(); }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

  // Says before any work whether Write will be refused.
  //   ALREADY_EXISTS    there is a file, and it may not be replaced
  [[nodiscard]] absl::Status Check() const;

  // Writes the file. Call it once.
  //   ALREADY_EXISTS    as of Check
  //   INVALID_ARGUMENT  the system refuses it, and says why
  //   CANCELLED         it was given up
  [[nodiscard]] absl::Status Write(std::string_view content);

  // The same in two steps, for what is written by others: Create makes an empty
  // file and returns its name for now; Publish syncs it and gives it its own.
  [[nodiscard]] absl::StatusOr<std::string> Create();
  [[nodiscard]] absl::Status Publish();

  // Removes what has been written so far, and ends Write. A file that is whole
  // stays. Waits for no disk but to open and to remove.
  void GiveUp();

 private:
  absl::Status Open(int& descriptor);
  absl::Status Rename();
  absl::Status Finish(absl::Status status);  // of the writing

  const std::string path_;
  const bool may_replace_;
  const mode_t mode_;
  Mutex mutex_;
  bool is_given_up_ GUARDED_BY(mutex_) = false;
  std::string part_
      GUARDED_BY(mutex_);  // exists under this name; "": none does
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_FILES_NEW_FILE_H_
