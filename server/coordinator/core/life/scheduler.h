// Scheduling: which jobs begin, and which idle workers they take.
//
// Any number of jobs run side by side, each with its own generation. A queued job
// begins to gather as soon as there are as many idle workers as it needs at
// least: all at once, or not at all. In which order jobs take idle workers, and
// which are left to those that come after, is in rendezvous.h.
//
// A job that lacks workers does not hold up those behind it: they begin with what it
// cannot use yet. But once it has been the first that lacks workers for
// Config::overtake_time, it is overdue:
//   - Jobs that have overtaken it give way (gifts.h) as soon as their workers and the
//     idle ones are as many as it needs. So it begins when it would have begun if nobody
//     had overtaken it: this is backfill that needs no estimate of how long a job takes.
//   - Idle workers are kept for it, as many as it needs, and lent only to jobs that can
//     give way without losing a step (IsPreemptible); to none once it is served.
// While it waits no job that trains grows, unless with idle workers that are not what it
// asks for. A job that the pool could not satisfy even if it had no other is passed over
// until the pool is large enough.
//
// Jobs that train let go as many workers as a job lacks to begin, or to go on, if they
// have so many to give (gifts.h). These are kept for it; and those that gave them grow
// again once nobody lacks workers.
//
// Jobs of a higher priority come first in all of this: in the queue, where idle workers
// are claimed, and where workers are given. Of the same priority, jobs within the quotas
// of their queues come first (quotas.h); one whose queue has no room for it is passed
// over. One that somebody has suspended takes none.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_SCHEDULER_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_SCHEDULER_H_

#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Lets jobs that wait go on, queued ones begin, and those that train grow, as
// far as there are workers. Called once an event or deadlines have been handled that
// may have changed that (Turn::ScheduleSoon): many workers that go at once cost one
// look.
void Schedule(Turn& turn);

// Returns as many workers as `job` may have now, of those that it takes at most: as many
// as its queue has room for; or, if another job, of no lower priority, lacks workers to
// go on, or to begin and could have them, those that it needs; and one for each that
// leaves, without `unreplaced` of those.
[[nodiscard]] int MostWorkers(const State& state, const Job& job,
                              int unreplaced = 0);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_SCHEDULER_H_
