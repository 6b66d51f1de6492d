// Config: the coordinator's times and limits, derived from one knob.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_STATE_CONFIG_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_STATE_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace ringmaster::coordinator {

// The longest back-off of workers that try to reach a coordinator that is down.
inline constexpr absl::Duration kReturnTime = absl::Seconds(1);

// From this protocol version on, members can check frames (FrameIntegrity).
inline constexpr int kIntegrityProtocol = 2;
// From this one on, a member that is to leave stays until it is released, and
// can take part in a generation that makes no step (hand_over.h).
inline constexpr int kLeaveProtocol = 3;
inline constexpr int kNewestProtocol = 3;

// Every duration is > 0, but state_wait and overtake_time may be zero. A field may
// be changed
// after the derivation; call Validate then.
struct Config {
  // Derives everything below from the failure budget: the time in which a dead
  // member is detected and the survivors have halted. `progress_cap` zero: also
  // derived from the budget.
  static Config FromFailureBudget(
      absl::Duration failure_budget,
      absl::Duration progress_cap = absl::ZeroDuration());

  // The times that follow from the budget, for the log: "beats every 400ms,
  // ...".
  [[nodiscard]] std::string Times() const;

  // INVALID_ARGUMENT names the offending value and its bound, in terms of the
  // flag --failure_budget where it follows from it.
  [[nodiscard]] absl::Status Validate() const;

  // A job is refused while so many have not ended, the running one included.
  int max_queued_jobs = 1000;

  // kMinFailureBudget to kMaxFailureBudget.
  absl::Duration failure_budget = absl::Seconds(2);
  // Workers send a beat at least this often: budget / 5, so that three in a
  // row may be lost or late within a lease; at most 1s, since the figures that
  // users see come with beats.
  absl::Duration beat_interval = absl::Milliseconds(400);
  // Silence for this long ends a session: 3/4 budget. At least 2 beats.
  absl::Duration lease = absl::Milliseconds(1500);
  // A member that has not answered a halt within this time is evicted: = lease.
  absl::Duration halt_budget = absl::Milliseconds(1500);
  // A peer's report that nothing else has explained by then counts as a broken
  // link: = lease, so that a dead peer's own lease runs out first.
  absl::Duration suspicion_grace = absl::Milliseconds(1500);
  // Members that are asked to probe their links give up on a peer that they
  // cannot connect to within this time: = lease / 2, so that all answers are
  // there before the report that began it counts.
  absl::Duration probe_timeout = absl::Milliseconds(750);
  // Members known from the journal have this long to attach again, counted from
  // the first worker's hello: 2 * lease, at least kReturnTime + lease, since
  // each tries only every kReturnTime.
  absl::Duration reattach_budget = absl::Seconds(3);
  // Being called later than this after NextDeadline() means that the
  // coordinator itself stalled; its deadlines are extended by the delay: lease
  // / 4.
  absl::Duration stall_tolerance = absl::Milliseconds(375);
  // A member waits at most this long to connect to its neighbours, and gives up
  // a connection over which nothing is acknowledged for this long: budget +
  // lease, at least 3s. All members are told to begin at the same moment and
  // are already listening, so the wait covers a start message that is late by
  // less than a lease, and the round trips of a handshake. A longer timeout
  // would only delay the verdict on a dead link, each time a generation is
  // formed over it; below 3s a lost SYN, which is resent after 1s, would look
  // like one.
  absl::Duration connect_timeout = absl::Milliseconds(3500);

  // A generation in which nobody makes progress is halted after three times the
  // longest gap learned for what its members are doing + budget (see
  // progress_model.h), at the latest after this: a minute, or 2 * lease if that
  // is longer.
  absl::Duration progress_cap = absl::Seconds(60);
  // A member waits at most this long for a peer within a collective: progress
  // cap + 2 * lease. The last resort, for when there is no coordinator to find
  // out who is stuck; if it were shorter, it would mistake a slow step for a
  // broken link.
  absl::Duration collective_timeout = absl::Seconds(63);

  // Not derived.

  // A job goes back to its last checkpoint, or to the beginning, when all who
  // held its steps are known to have ended, or after it has waited this long
  // for those that may come back. Its workers train on without a coordinator
  // for at least this long. Zero: it does not wait.
  absl::Duration state_wait = absl::Minutes(10);
  // Members that were asked to stop are halted when none of them has made
  // progress for this long (StopPatience says how a slow step extends it).
  absl::Duration stop_budget = absl::Seconds(10);
  // The first job that lacks workers is overtaken by those behind it for this
  // long; then it is overdue (life/scheduler.h). Zero: at once.
  absl::Duration overtake_time = absl::Minutes(10);
  // Workers of the pool join a running job once no further one has joined the
  // pool for this long.
  absl::Duration join_settle = absl::Seconds(1);
  // A host is quarantined for `quarantine_time` when its workers caused this
  // many incidents within `quarantine_window`, at least half of all; 0: never.
  int quarantine_faults = 3;
  absl::Duration quarantine_window = absl::Minutes(10);
  absl::Duration quarantine_time = absl::Minutes(10);
  // A job fails when it has gone back to its last checkpoint (or to the
  // beginning) this many times in a row, because no member survived, without
  // getting further.
  int max_rollbacks = 3;
  // Ended jobs kept in the state, newest first; >= 1.
  int max_ended_jobs = 100;

  // It takes over, from the workers that report them, generations that its
  // journal does not know, although it knows others: it is an older copy, and
  // who formed them has ended for good (life/other_coordinator.h).
  bool takes_over = false;

  // Where the queues come from; empty: from operators.
  std::string queues_file;

  // Members encrypt what they send each other between hosts. Whoever says
  // otherwise of itself is refused.
  bool requires_encryption = false;

  // Protocol versions that the coordinator speaks.
  int protocol_min = 1;
  int protocol_max = kNewestProtocol;
};

inline constexpr absl::Duration kMinFailureBudget = absl::Milliseconds(200);
inline constexpr absl::Duration kMaxFailureBudget = absl::Minutes(10);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_STATE_CONFIG_H_
