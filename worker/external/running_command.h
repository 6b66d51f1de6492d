// RunningCommand: a rank's command with its output and its last words, and the
// waits for its end.
//
// Output lines become lines of the log: command.stdout and command.stderr, with
// the text. Thread-compatible.
#ifndef RINGMASTER_WORKER_EXTERNAL_RUNNING_COMMAND_H_
#define RINGMASTER_WORKER_EXTERNAL_RUNNING_COMMAND_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/logging/log_file.h"
#include "common/sync/mutex.h"
#include "common/transport/cancel_token.h"
#include "worker/external/child_command.h"
#include "worker/external/command_environment.h"
#include "worker/external/command_setup.h"
#include "worker/external/output_lines.h"

namespace ringmaster {

class RunningCommand {
 public:
  // Starts it. If that fails, it has failed. The arguments outlive it.
  RunningCommand(const CommandSetup& setup, const CommandPlace& place,
                 const LogFileOptions& output_file, Clock& clock);
  // None, which is as one that has ended with 0.
  explicit RunningCommand(Clock& clock);

  // Notes its end, if it has come, or kills it if it is due. What is left of its
  // group is killed then.
  void Look();
  // Waits for its end, or until `deadline`, a cancellation, `wake` (an eventfd,
  // which is reset) is rung, or `other` (a descriptor, or -1) is readable.
  void Wait(MonotonicTime deadline, const CancelToken& cancel, int wake,
            int other = -1);

  // Asks it to end, once. If it has not ended `grace` after the first call, the
  // shortest of all calls, Wait kills it and all that it started.
  void Terminate(absl::Duration grace);

  // Asks it to end and waits until it has; a cancellation leaves kShortGrace of
  // `grace`.
  void Stop(absl::Duration grace, const CancelToken& cancel);

  static constexpr absl::Duration kShortGrace = absl::Milliseconds(200);

  [[nodiscard]] bool has_ended() const { return ended_at_.has_value(); }
  [[nodiscard]] bool has_failed() const {
    return has_ended() && exit_code_ != 0;
  }
  // Since its end.
  [[nodiscard]] absl::Duration since_end() const;
  // Of a command that has failed: "ended with exit code 3: ValueError: boom".
  [[nodiscard]] std::string FailureText() const;
  [[nodiscard]] int exit_code() const { return exit_code_; }
  // That it was killed by; 0: by none.
  [[nodiscard]] int signal() const { return signal_; }

 private:
  class Output;

  // Waits for its end, or until `deadline` or one of these is readable. Returns
  // true if `other` is.
  bool Poll(MonotonicTime deadline, int cancel, int wake, int other);

  Clock& clock_;
  const std::shared_ptr<Output> output_;  // null: there is no command
  std::unique_ptr<ChildCommand> child_;   // null: it was not to be started
  std::string end_text_;
  int exit_code_ = 0;
  int signal_ = 0;
  std::optional<MonotonicTime> ended_at_;
  std::optional<MonotonicTime> terminated_at_;
  MonotonicTime kill_at_ = MonotonicTime::InfiniteFuture();
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_EXTERNAL_RUNNING_COMMAND_H_
