// RestartPolicy decides whether and when to restart the process of a slot after
// its end. Pure: time is an argument. Thread-compatible.
//
// Ends are of four kinds, see ChildEnd in child_exit.h:
// - wanted and permanent ones are final;
// - ends that came from outside (the kernel's out-of-memory killer, a lost
//   coordinator) are followed by a start each time, however many there are:
//   they say nothing about the program;
// - crashes are too, until there were more than `max_crashes` within
//   `crash_window`. They count however long each life lasted: with the
//   defaults a crash every two minutes is a loop, one every three is not.
//
// The first start after an end comes at once, since a job may wait for the
// worker; later ones wait longer each time, so that a process that cannot live
// does not keep the host busy. A life of `settle_after` resets the wait: it is
// twice the longest wait, so at least half of the time was spent at work.
#ifndef RINGMASTER_WORKER_SUPERVISOR_RESTART_POLICY_H_
#define RINGMASTER_WORKER_SUPERVISOR_RESTART_POLICY_H_

#include <deque>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"

namespace ringmaster {

struct RestartOptions {
  int max_crashes = 5;
  absl::Duration crash_window = absl::Minutes(10);
  // The second start in a row waits this long, each further one twice as long.
  absl::Duration delay_initial = absl::Milliseconds(200);
  absl::Duration delay_max = absl::Seconds(30);
  absl::Duration settle_after = absl::Minutes(1);
};

class RestartPolicy {
 public:
  struct Decision {
    // The time after the end; nullopt: never.
    std::optional<absl::Duration> start_after;
    // For the log: "starts again in 200ms", "crashed 6 times within ...".
    std::string text;
  };

  explicit RestartPolicy(const RestartOptions& options) : options_(options) {}

  // Decides about a process that was started at `started_at` and ended at
  // `ended_at` with `wait_status` (see wait(2)).
  [[nodiscard]] Decision OnEnd(int wait_status, MonotonicTime started_at,
                               MonotonicTime ended_at);

  // Returns the wait after a failed start: the host lacks something for now.
  [[nodiscard]] absl::Duration OnFailedStart() { return NextDelay(); }

 private:
  // Returns the wait of the next start; the one after it waits longer.
  absl::Duration NextDelay();

  const RestartOptions options_;
  absl::Duration next_delay_;
  std::deque<MonotonicTime> crashes_;  // within the window
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_SUPERVISOR_RESTART_POLICY_H_
