// ChildCommand: a command that runs as a child of this process, with its output
// taken line by line.
//
// The command is a Subprocess, so the thread that starts it must outlive it. A
// second process in its group, the keeper, kills the others of the group once
// this process is gone, however that happens. A process that leaves the group
// (setsid) is out of reach. Linux only.
//
// Thread-compatible. The destructor kills the group and waits for its output.
#ifndef RINGMASTER_WORKER_EXTERNAL_CHILD_COMMAND_H_
#define RINGMASTER_WORKER_EXTERNAL_CHILD_COMMAND_H_

#include <sys/types.h>

#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/process/subprocess.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

// "ended with exit code 3", "was killed by signal 9 (Killed)".
[[nodiscard]] std::string CommandEndText(const SubprocessEnd& end);

class ChildCommand {
 public:
  struct Options {
    // Its output is taken here.
    Command command;
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

  [[nodiscard]] pid_t pid() const { return process_.pid(); }
  // Readable (poll) once the command has ended.
  [[nodiscard]] int pidfd() const { return process_.pidfd(); }
  // The command's end, once it has come; others of its group may live on.
  [[nodiscard]] std::optional<SubprocessEnd> End() { return process_.End(); }

  // Asks the command to end: SIGTERM, to it alone.
  void Terminate() { process_.Signal(SIGTERM); }
  // Kills what is left of the group, and waits until its output is taken.
  void Kill();

 private:
  explicit ChildCommand(Subprocess process) : process_(std::move(process)) {}
  [[nodiscard]] absl::Status StartKeeper();
  void ReadOutput(
      const std::function<void(bool is_error, std::string_view line)>& on_line);

  Subprocess process_;
  pid_t keeper_ = -1;
  UniqueFd keeper_pipe_;  // Its end, with this process, tells the keeper.
  UniqueFd output_[2];    // read ends of stdout and stderr
  UniqueFd stop_reading_;
  std::thread reader_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_EXTERNAL_CHILD_COMMAND_H_
