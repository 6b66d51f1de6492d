// Quotas: which jobs are within what their queue has a right to.
//
// A queue is a share of the pool. Workers count as jobs need them, by their min: what
// they have beyond that they give away anyway when somebody lacks workers (gifts.h).
//
// In each queue the jobs are within the quota that come first, by priority and
// submission, whether they have begun or wait: as many in a row as it is enough for. All
// others borrow; so do those that somebody has suspended, which are not counted. So who
// borrows does not depend on who has begun, and no job of a queue gets before another by
// being smaller. Jobs that require GPUs have to be within the part of the quota that is
// GPUs, too.
//
// Jobs that do not borrow come before others of their priority in the queue of all jobs,
// and if they lack workers, jobs of other queues that borrow give way. Among those that
// borrow it is the turn of the queue that has used least for its weight.
//
// (Kubernetes' Kueue has quotas, borrowing and limits of the same kind, and takes back
// what is borrowed by ending jobs: https://kueue.sigs.k8s.io/docs/concepts/cluster_queue.
// Decayed use for a weight is Slurm's classic fair share:
// https://slurm.schedmd.com/classic_fair_share.html.)
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_QUOTAS_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_QUOTAS_H_

#include <map>
#include <string>
#include <string_view>

#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

// Returns the queue of `job`, kDefaultQueue's if its own is gone; null if none are
// defined. Valid until the queues change.
[[nodiscard]] const Queue* QueueOf(const State& state, const JobTerms& job);

// Sets what Queue and Job keep of all this, as jobs and the use of queues are now.
void SetStandings(State& state);

// Returns true if the queue of `job` has room for the fewest workers that it needs,
// beside the fewest of its active jobs that are not of a lower priority, and of those
// that wait before it. As of SetStandings, and QueuePlace::needed_ahead.
[[nodiscard]] bool HasRoom(const State& state, const Job& job);

// Returns the most workers that `job` may have beside what other jobs of its queue have
// or need.
[[nodiscard]] int MostOfQueue(const State& state, const Job& job);
// The same of the job with that number if it had these terms.
[[nodiscard]] int MostOfQueue(const State& state, const JobTerms& terms,
                              int64_t number);

// The figures of a queue, by its jobs.
struct QueueFigures {
  int workers = 0;
  int gpus = 0;  // workers on GPUs
  // How many its active jobs need at least, and how many those of them that borrow.
  int needed = 0;
  int borrowed = 0;
  int active_jobs = 0;
  int queued_jobs = 0;
};

// By queue; all of them.
[[nodiscard]] std::map<std::string_view, QueueFigures> FiguresOfQueues(
    const State& state);

// "waits for room in queue research: jobs before it need 8 of at most 8 workers", or
// "its jobs have ..." where they have more than they need; empty if it has room.
[[nodiscard]] std::string RoomText(const State& state, const Job& job);

// "queue research has a quota of 4 workers, and borrows what is beyond that": why `job`
// has no right to workers; empty if it does, or there are no other queues.
[[nodiscard]] std::string QuotaText(const State& state, const Job& job);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_QUOTAS_H_
