// Goodput: where the time of each job goes.
//
// Every moment between a job's submission and its end belongs to one part, by
// the state that the job is in; the parts of Goodput add up to the whole. What
// a fault took before anybody noticed is moved to `detecting` once its verdict
// is reached.
//
// The account is of this coordinator's life only: it is not journaled, since
// that would take a record for every beat. After a restart a job that was
// running begins anew with nothing, and counts as training from then on; a job
// that had ended has none.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_GOODPUT_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_GOODPUT_H_

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

// The clock of all jobs that have not ended starts, at the coordinator's start.
void StartAccounting(State& state, MonotonicTime now);

// Before an event at `now` changes anything: adds the time since the event
// before to the active job. Constant time: a queued job's is added when it
// becomes the active one.
void AccountTime(State& state, MonotonicTime now);

// Adds the time since `job` was last accounted for to the part that it is in;
// call it before its state changes.
void Account(Job& job, MonotonicTime now);

// Moves `duration` of what the job seemed to train (or to repeat, or to start)
// to `detecting`, or as much as there is of it.
void MoveToDetecting(Job& job, absl::Duration duration);

// Goodput as of `now`, at or after what was accounted for last.
[[nodiscard]] Goodput GoodputAt(const Job& job, MonotonicTime now);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_GOODPUT_H_
