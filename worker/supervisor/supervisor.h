// Supervisor: runs one child process a slot, until all have ended.
//
// A child that ends is not started again, and does not end the others. SIGTERM
// and SIGINT are passed on; a child that has not ended `kill_after` the first
// one is killed. Should the supervisor itself be killed, the kernel kills its
// children.
//
// Children are process groups of their own: a terminal's Ctrl-C then reaches
// them once, through the supervisor.
// Thread-safety: the main thread; children die with it, not with the process.
#ifndef RINGMASTER_WORKER_SUPERVISOR_SUPERVISOR_H_
#define RINGMASTER_WORKER_SUPERVISOR_SUPERVISOR_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/status/exit_code.h"

namespace ringmaster {

struct SupervisorOptions {
  // Run as `program --slot=K arguments...`.
  std::string program = "/proc/self/exe";
  std::vector<std::string> arguments;
  int slot_count = 1;
  std::string name;  // the workers' common name, for the log
  absl::Duration kill_after = absl::Seconds(35);
};

class Supervisor {
 public:
  Supervisor(Clock& clock, SupervisorOptions options);

  // Starts the children and returns once all have ended, with the worst of
  // their exit codes (143 if all did as a stop signal asked). No SignalPipe may
  // exist: it has one.
  [[nodiscard]] ExitCode Run();

 private:
  struct Child {
    int slot = 0;
    pid_t pid = 0;
    bool is_running = true;
    ExitCode exit_code = ExitCode::kDone;
  };

  [[nodiscard]] absl::Status Start(int slot);
  void Reap();
  void Signal(int signal);
  bool IsAnyRunning() const;

  Clock& clock_;
  const SupervisorOptions options_;
  std::vector<Child> children_;
  bool is_stopping_ = false;
  std::optional<MonotonicTime> kill_at_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_SUPERVISOR_SUPERVISOR_H_
