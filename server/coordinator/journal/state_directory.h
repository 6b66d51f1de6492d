// StateDirectory: --state_dir, held by this process alone.
#ifndef RINGMASTER_SERVER_COORDINATOR_JOURNAL_STATE_DIRECTORY_H_
#define RINGMASTER_SERVER_COORDINATOR_JOURNAL_STATE_DIRECTORY_H_

#include <string>

#include "absl/status/statusor.h"

namespace ringmaster::coordinator {

inline constexpr char kLockFile[] = "lock";

// Holds an exclusive flock(2) on PATH/lock for its life. The kernel lets go of
// it when the process ends, however it ends: no stale lock is ever left. The
// file's text (pid and host) only names the holder to others.
// Not copyable; movable.
class StateDirectory {
 public:
  // Creates the directory (mode 0700, its contents tell hosts and job specs)
  // with its parents if it is missing, and locks it. Errors as in Journal::Open.
  [[nodiscard]] static absl::StatusOr<StateDirectory> Acquire(
      const std::string& path);

  ~StateDirectory();
  StateDirectory(StateDirectory&& other) noexcept;
  StateDirectory& operator=(StateDirectory&&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  StateDirectory(std::string path, int lock_fd)
      : path_(std::move(path)), lock_fd_(lock_fd) {}

  std::string path_;
  int lock_fd_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_JOURNAL_STATE_DIRECTORY_H_
