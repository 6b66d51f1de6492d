// Goodput: how each job spends its time.
//
// Every moment between a job's submission and its end belongs to one part, by
// the state that the job is in; the parts of Goodput add up to the whole. The
// time that passed before a fault was noticed is moved to `detecting` once its
// verdict is reached.
//
// The account covers this coordinator's life only: it is not journaled, since
// that would take a record for every beat. After a restart the account of a
// running job starts again at zero and counts the job as training from then on;
// a job that had ended has none.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_GOODPUT_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_GOODPUT_H_

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

// Starts the clock of all jobs that have not ended, when the coordinator
// starts.
void StartAccounting(State& state, MonotonicTime now);

// Before an event at `now` changes anything: adds the time since the event
// before to the active job. Constant time: a queued job's is added when it
// becomes the active one.
void AccountTime(State& state, MonotonicTime now);

// Adds the time since `job` was last accounted for to the part that it is in;
// call it before its state changes.
void Account(Job& job, MonotonicTime now);

// Moves `duration` from the time that the job seemed to be training (or
// repeating, or starting) to `detecting`, at most what there is of it.
void MoveToDetecting(Job& job, absl::Duration duration);

// Goodput as of `now`, at or after what was accounted for last.
[[nodiscard]] Goodput GoodputAt(const Job& job, MonotonicTime now);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_GOODPUT_H_
