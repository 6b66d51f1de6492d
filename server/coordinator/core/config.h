// Config: the coordinator's times and limits, derived from one knob.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_CONFIG_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_CONFIG_H_

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace ringmaster::coordinator {

// Every duration is > 0. A field may be changed after the derivation; call
// Validate then.
struct Config {
  // Derives everything below from the time in which a dead member is found and
  // the survivors have halted.
  static Config FromFailureBudget(absl::Duration failure_budget);

  // INVALID_ARGUMENT names the offending value and its bound, in terms of the
  // flag --failure_budget where it follows from it.
  [[nodiscard]] absl::Status Validate() const;

  // kMinFailureBudget to kMaxFailureBudget.
  absl::Duration failure_budget = absl::Seconds(2);
  // Workers send a beat at least this often: budget / 5, so that three in a
  // row may be lost or late within a lease.
  absl::Duration beat_interval = absl::Milliseconds(400);
  // Silence for this long ends a session: 3/4 budget. At least 2 beats.
  absl::Duration lease = absl::Milliseconds(1500);
  // Who has not answered a halt by then is evicted: = lease.
  absl::Duration halt_budget = absl::Milliseconds(1500);
  // A peer's report that nothing else explains by then is taken for a broken
  // link: = lease, so that a dead peer's own lease runs out first.
  absl::Duration suspicion_grace = absl::Milliseconds(1500);
  // Members known from the journal have this long to attach again: 2 * lease.
  absl::Duration reattach_budget = absl::Seconds(3);
  // Being called later than this after NextDeadline() means that the
  // coordinator itself stalled; its deadlines are extended by the delay: lease
  // / 4.
  absl::Duration stall_tolerance = absl::Milliseconds(375);
  // A member waits at most this long to connect to its neighbours: 5 * budget.
  absl::Duration connect_timeout = absl::Seconds(10);
  // A member waits at most this long for a peer within a collective: 15 *
  // budget. Not the way a dead peer is found, so it leaves room for slow steps.
  absl::Duration collective_timeout = absl::Seconds(30);

  // A generation in which no member makes progress for this long is halted: a
  // minute, or 2 * lease if that is longer.
  absl::Duration progress_cap = absl::Seconds(60);
  // Not derived.

  // Members that were asked to stop are halted when none of them has made
  // progress for this long (StopPatience says how a slow step extends it).
  absl::Duration stop_budget = absl::Seconds(10);
  // Workers of the pool join a running job once none came for this long.
  absl::Duration join_settle = absl::Seconds(1);
  // A host is quarantined for `quarantine_time` when its workers caused this
  // many incidents within `quarantine_window`, at least half of all; 0: never.
  int quarantine_faults = 3;
  absl::Duration quarantine_window = absl::Minutes(10);
  absl::Duration quarantine_time = absl::Minutes(10);
  // How often in a row a job goes back to its last checkpoint (or to the
  // beginning), because no member survived, without getting further; after that
  // it fails.
  int max_rollbacks = 3;
  // How often a generation is formed anew over broken links without a step
  // committed in between; after that the job fails.
  int max_link_faults = 3;
  // Ended jobs kept in the state, newest first; >= 1.
  int max_ended_jobs = 100;

  // Protocol versions that the coordinator speaks.
  int protocol_min = 1;
  int protocol_max = 1;
};

inline constexpr absl::Duration kMinFailureBudget = absl::Milliseconds(200);
inline constexpr absl::Duration kMaxFailureBudget = absl::Minutes(10);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_CONFIG_H_
