// ChildCommand: a command that runs as a child of this process, with its output
// taken line by line.
//
// The command leads a process group. The kernel kills it when the thread that
// started it ends (PR_SET_PDEATHSIG), and a second process in the group, the
// keeper, kills the others of the group once this process is gone, however that
// happens. A process that leaves the group (setsid) is out of reach. Linux only.
// Thread-compatible. The destructor kills the group and waits for its output.
#ifndef RINGMASTER_WORKER_EXTERNAL_CHILD_COMMAND_H_
#define RINGMASTER_WORKER_EXTERNAL_CHILD_COMMAND_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

// How a command ended.
struct CommandEnd {
  int exit_code = 0;  // unless a signal ended it
  int signal = 0;     // 0: none

  [[nodiscard]] bool is_good() const { return exit_code == 0 && signal == 0; }
  // As a shell has it: of a signal, 128 more than its number.
  [[nodiscard]] int code() const {
    return signal > 0 ? 128 + signal : exit_code;
  }
  friend bool operator==(const CommandEnd&, const CommandEnd&) = default;
};

// "ended with exit code 3", "was killed by signal 9 (Killed)".
[[nodiscard]] std::string CommandEndText(const CommandEnd& end);

class ChildCommand {
 public:
  struct Options {
    std::string program;                        // a path
    std::vector<std::string> arguments = {};    // with the program's name first
    std::vector<std::string> environment = {};  // NAME=VALUE
    int directory = -1;  // to start in; -1: where this process is
    // Called by one thread, which is none of the caller's; the last lines come
    // before Kill returns.
    std::function<void(bool is_error, std::string_view line)> on_line;
  };

  // NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE name the program and why it
  // cannot be started.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ChildCommand>> Start(
      Options options);

  ChildCommand(const ChildCommand&) = delete;
  ChildCommand& operator=(const ChildCommand&) = delete;
  ~ChildCommand();

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Readable (poll) once the command has ended.
  [[nodiscard]] int pidfd() const { return pidfd_.get(); }
  // The command's end, once it has come; others of its group may live on.
  [[nodiscard]] std::optional<CommandEnd> End();

  // Asks the command to end: SIGTERM, to it alone.
  void Terminate();
  // Kills what is left of the group, and waits until its output is taken.
  void Kill();

 private:
  ChildCommand() = default;
  [[nodiscard]] absl::Status StartKeeper();
  void ReadOutput(
      const std::function<void(bool is_error, std::string_view line)>& on_line);

  pid_t pid_ = -1;
  pid_t keeper_ = -1;
  UniqueFd pidfd_;
  UniqueFd keeper_pipe_;  // Its end, with this process, tells the keeper.
  UniqueFd output_[2];    // read ends of stdout and stderr
  UniqueFd stop_reading_;
  std::optional<CommandEnd> end_;
  std::thread reader_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_EXTERNAL_CHILD_COMMAND_H_
