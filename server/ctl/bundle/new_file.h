// NewFile: a file that is there whole, or not at all.
//
// It is written under a name of its own beside its place. Thread-safe: another
// thread may give it up, as when the user interrupts the program.
#ifndef RINGMASTER_SERVER_CTL_BUNDLE_NEW_FILE_H_
#define RINGMASTER_SERVER_CTL_BUNDLE_NEW_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/sync/mutex.h"

namespace ringmaster::ctl {

class NewFile {
 public:
  // A file that is at `path` already is kept unless `may_replace`.
  NewFile(std::string path, bool may_replace)
      : path_(std::move(path)), may_replace_(may_replace) {}
  // Removes what is not whole.
  ~NewFile() { GiveUp(); }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // Says before any work whether Write will be refused.
  //   ALREADY_EXISTS    there is a file, and it may not be replaced
  [[nodiscard]] absl::Status Check() const;

  // Writes the file. Call it once.
  //   ALREADY_EXISTS    as of Check
  //   INVALID_ARGUMENT  the system refuses it, and says why
  //   CANCELLED         it was given up
  [[nodiscard]] absl::Status Write(std::string_view content);

  // Removes what has been written so far, and ends Write. A file that is whole
  // stays. Waits for no disk but to open and to remove.
  void GiveUp();

 private:
  absl::Status Open(int& descriptor);
  absl::Status Publish();

  const std::string path_;
  const bool may_replace_;
  Mutex mutex_;
  bool is_given_up_ GUARDED_BY(mutex_) = false;
  std::string part_
      GUARDED_BY(mutex_);  // exists under this name; "": none does
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_BUNDLE_NEW_FILE_H_
