// Gifts: a job that has workers gives some to one that lacks them.
//
// Two kinds of jobs lack workers: those whose members have halted, if there are fewer
// than `min` left; and the first that cannot begin (State::first_lacking). Other jobs,
// of the same priority or a lower one, give such a job what the idle workers leave
// open, if all of them together can; otherwise none, since it could not go on even so.
// A job that waits for something else than workers gives none; nor does a benchmark,
// whose members cannot change; and a job of commands gives all of its own or none.
//
// First they give what they have beyond their min: one worker after the other is given
// by the job of the lowest priority, among such jobs by the one that has most beyond
// its min by then, and of several by the last submitted: the member with its highest
// rank, or, while its members have halted, one that holds no step.
//
// If that is not enough, others give way: they give all their workers and go on later
// (suspension.h). Those are jobs of a lower priority; to one within the quota of its
// queue, jobs of other queues that borrow (quotas.h); and, to one that is overdue
// (scheduler.h), jobs that have overtaken it: of its priority, and begun while it was
// before them in the queue. Those that give way already come first, and then the last in
// the order of the queue; no more of them do so than are needed. What they give beyond
// that is idle then. A job that somebody has suspended gives all of its own in any case.
// Parameter servers are given by jobs that give way alone.
//
// Where the queue of a job has no room for more workers, only jobs of the same queue give
// it any; if there are idle workers enough, even such as it could not take itself.
//
// Pure functions of their arguments.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_GIFTS_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_GIFTS_H_

#include <optional>
#include <string>
#include <vector>

#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

// `worker` is still a member of `giver`, and is to be of `taker`.
struct Gift {
  const Worker* worker = nullptr;  // of either role
  const Job* giver = nullptr;
  const Job* taker = nullptr;
  // The giver gives way: it gives all its workers, to this job or others.
  bool gives_way = false;
};

// Returns true if `job` could go on later from the step at which it is, or has not
// begun.
[[nodiscard]] bool IsSuspendable(const Job& job);

// Returns true if all members of `job` are of releases that can write a checkpoint as
// they leave.
[[nodiscard]] bool KnowHowToLeave(const State& state, const Job& job);

// Returns true if `job` can be suspended, now or once it tries again: it has members
// that can write a checkpoint.
[[nodiscard]] bool CouldGiveWay(const State& state, const Job& job);

// Returns true if `job` can be suspended now: its members can write a checkpoint, and
// did not fail to do so lately.
[[nodiscard]] bool CanGiveWay(const State& state, const Job& job);

// Returns the gifts that are due, by the job that takes them, in the order of claims
// (idle_pool.h). A worker that has been released is idle, so no gift any more.
// Lasts as long as the state stays as it is.
[[nodiscard]] std::vector<Gift> Gifts(const State& state);

// "job a-1 gives it worker w-3", "jobs a-1, b-2 give it 5 workers and parameter server
// s-1": what `taker` is given; empty if it is nothing.
[[nodiscard]] std::string GiftsText(const State& state, const Job& taker);

// "is suspended by alice: too warm", "gives way to job b-2 (priority 5)", "gives way
// to job b-2, which it has overtaken", "gives way to job b-2, which is within the quota of
// queue research": why `job` gives all its workers; nullopt if it does not. `gifts` are
// those of the state as it is.
[[nodiscard]] std::optional<std::string> WhyGivesWay(
    const State& state, const Job& job, const std::vector<Gift>& gifts);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_GIFTS_H_
