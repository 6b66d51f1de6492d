// Subprocess: a child process that does not outlive its owner.
//
// The child leads a process group of its own, so that Ctrl-C at the terminal
// reaches only its owner, which decides what to do; the kernel kills it when
// the thread that started it ends, however that happens (prctl(2),
// PR_SET_PDEATHSIG). It begins with signals as a shell's children have them, and
// no descriptor of its owner's but those that it is given. Linux only.
// Thread-compatible. The destructor kills the group and reaps the child.
#ifndef RINGMASTER_COMMON_PROCESS_SUBPROCESS_H_
#define RINGMASTER_COMMON_PROCESS_SUBPROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

struct Command {
  std::string program;                      // a path
  std::vector<std::string> arguments = {};  // without the program's name
  // Takes what has no descriptor below; created, or appended to.
  std::string log_file = "";
  std::string name = "";  // what it sees as its own; "": the path
  // NAME=VALUE; nullopt: that of this process.
  std::optional<std::vector<std::string>> environment = {};
  // Descriptors, which stay the caller's.
  int directory = -1;  // to start in; -1: where this process is
  int in = -1;         // gives stdin; -1: nothing does
  int out = -1;        // takes stdout; -1: the log file does
  int error = -1;      // takes stderr; -1: the log file does
};

// How a process ended.
struct SubprocessEnd {
  int exit_code = 0;  // unless a signal ended it
  int signal = 0;     // 0: none

  [[nodiscard]] bool is_good() const { return exit_code == 0 && signal == 0; }
  // As a shell has it: of a signal, 128 more than its number.
  [[nodiscard]] int code() const {
    return signal > 0 ? 128 + signal : exit_code;
  }
  friend bool operator==(const SubprocessEnd&, const SubprocessEnd&) = default;
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
  [[nodiscard]] int pidfd() const { return pidfd_.get(); }

  // The child's end, once it has come; others of its group may live on.
  [[nodiscard]] std::optional<SubprocessEnd> End();
  // The code of that.
  [[nodiscard]] std::optional<int> ExitCode();

  // Waits for the child's end for at most `limit`.
  [[nodiscard]] std::optional<int> Wait(absl::Duration limit);

  // Sends `signal` to the child, which does nothing if it has ended.
  void Signal(int signal);

  // Kills the whole group and reaps the child.
  void Kill();

 private:
  explicit Subprocess(pid_t pid) : pid_(pid) {}

  pid_t pid_ = -1;
  UniqueFd pidfd_;
  std::optional<SubprocessEnd> end_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PROCESS_SUBPROCESS_H_
