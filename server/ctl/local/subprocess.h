// Subprocess: a child process that does not outlive its owner.
//
// The child leads a process group of its own, so that Ctrl-C at the terminal
// reaches only its owner, which decides what to do; the kernel kills it when
// the thread that started it ends, however that happens (prctl(2),
// PR_SET_PDEATHSIG). Linux only.
// Thread-compatible. The destructor kills the group and reaps the child.
#ifndef RINGMASTER_SERVER_CTL_LOCAL_SUBPROCESS_H_
#define RINGMASTER_SERVER_CTL_LOCAL_SUBPROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace ringmaster::ctl {

struct Command {
  std::string program;                      // a path
  std::vector<std::string> arguments = {};  // without the program's name
  // Takes stdout and stderr; created, or appended to. stdin is /dev/null.
  std::string log_file;
};

class Subprocess {
 public:
  // NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE name the program or the file
  // and why it cannot be started.
  [[nodiscard]] static absl::StatusOr<Subprocess> Start(const Command& command);

  Subprocess(Subprocess&& other) noexcept;
  Subprocess& operator=(Subprocess&& other) noexcept;
  ~Subprocess();

  // -1 after Kill.
  [[nodiscard]] pid_t pid() const { return pid_; }
  // Readable (poll) once the child has ended.
  [[nodiscard]] int pidfd() const { return pidfd_; }

  // The exit code, or 128 + the signal, once the child has ended.
  [[nodiscard]] std::optional<int> ExitCode();

  // Waits for the child's end for at most `limit`.
  [[nodiscard]] std::optional<int> Wait(absl::Duration limit);

  // Sends `signal` to the child, which does nothing if it has ended.
  void Signal(int signal);

  // Kills the whole group and reaps the child.
  void Kill();

 private:
  Subprocess(pid_t pid, int pidfd) : pid_(pid), pidfd_(pidfd) {}

  pid_t pid_ = -1;
  int pidfd_ = -1;
  std::optional<int> exit_code_;
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_LOCAL_SUBPROCESS_H_
