// Supervisor: runs one child process a slot, until all have ended for good.
//
// RestartPolicy decides whether a child that ends is started again; its end
// does not end the others. SIGTERM and SIGINT are passed on, and no child is
// started after them; one that has not ended `kill_after` the first signal is
// killed. Should the supervisor itself be killed, the kernel kills its
// children.
//
// A child that follows another in its slot finds its predecessor's end in its
// environment (see PredecessorText), and no RINGMASTER_FAIL_POINTS: a fault is
// injected into one life only.
//
// Children are process groups of their own: a terminal's Ctrl-C then reaches
// them once, through the supervisor.
// Thread-safety: the main thread; children die with it, not with the process.
// IsTurning from any.
#ifndef RINGMASTER_WORKER_SUPERVISOR_SUPERVISOR_H_
#define RINGMASTER_WORKER_SUPERVISOR_SUPERVISOR_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/clock/monotonic_time.h"
#include "common/status/exit_code.h"
#include "worker/supervisor/restart_policy.h"

namespace ringmaster {

struct SupervisorOptions {
  // Run as `program --slot=K arguments...`.
  std::string program = "/proc/self/exe";
  std::vector<std::string> arguments;
  int slot_count = 1;
  std::string name;  // the workers' common name, for the log
  absl::Duration kill_after = absl::Seconds(35);
  // nullopt: no child is started again.
  std::optional<RestartOptions> restart = RestartOptions();
};

class Supervisor {
 public:
  Supervisor(Clock& clock, SupervisorOptions options);

  // Starts the children and returns once all have ended for good, with the
  // worst of their last exit codes (143 if all obeyed a stop signal). No other
  // SignalPipe may exist, since it has one.
  [[nodiscard]] ExitCode Run();

  // Returns true if Run, or the thread that is about to call it, has done
  // something in the last kLongTurn; Run does so every few seconds even while
  // it only waits.
  [[nodiscard]] bool IsTurning() const;
  static constexpr absl::Duration kLongTurn = absl::Seconds(10);

 private:
  struct Child {
    int slot = 0;
    RestartPolicy policy;
    pid_t pid = 0;
    bool is_running = false;
    MonotonicTime started_at = {};
    // The time when it is started again, if it is not running.
    std::optional<MonotonicTime> start_at = {};
    // The exit code and PredecessorText of the last end.
    ExitCode exit_code = ExitCode::kDone;
    std::string predecessor = {};
  };

  // Starts all; returns false if that is not possible.
  bool StartAll();
  [[nodiscard]] absl::Status Start(Child& child);
  // Starts those whose time has come.
  void StartDue();
  void Reap();
  void OnEnd(Child& child, int wait_status);
  void Signal(int signal);
  // Returns the time in which there is nothing to do but wait for signals.
  absl::Duration UntilNextDeadline() const;
  bool IsAnyLeft() const;
  std::string NameOf(const Child& child) const;

  Clock& clock_;
  std::atomic<int64_t> turned_at_nanos_;
  const SupervisorOptions options_;
  std::vector<Child> children_;
  bool is_stopping_ = false;
  std::optional<MonotonicTime> kill_at_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_SUPERVISOR_SUPERVISOR_H_
