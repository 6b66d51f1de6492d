// Gifts: a job that has more workers than its min gives some to one that lacks them.
//
// Two kinds of jobs lack workers: those whose members have halted, if there are fewer
// than `min` left; and the first that cannot begin (State::first_lacking). Jobs that
// train give such a job what the idle workers leave open, if all of them together have
// so many workers beyond their min; otherwise none, since it could not go on even so.
// One worker after the other is given by the job that has most beyond its min by
// then, or of several such jobs by the last submitted: the member with its highest
// rank, or, while its members have halted, one that holds no step. So no job falls
// below its min for another. A job that waits for something else than workers gives
// none; nor do benchmarks and jobs of commands, whose members cannot change.
//
// Pure functions of their arguments.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_GIFTS_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_GIFTS_H_

#include <string>
#include <vector>

#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

// `worker` is still a member of `giver`, and is to be of `taker`.
struct Gift {
  const Worker* worker = nullptr;
  const Job* giver = nullptr;
  const Job* taker = nullptr;
};

// Returns the gifts that are due, by the job that takes them, in the order of claims
// (idle_pool.h). A worker that has been released is idle, so no gift any more.
// Lasts as long as the state stays as it is.
[[nodiscard]] std::vector<Gift> Gifts(const State& state);

// "job a-1 gives it worker w-3", "jobs a-1, b-2 give it 3 workers": what `taker` is
// given; empty if it is nothing.
[[nodiscard]] std::string GiftsText(const State& state, const Job& taker);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_GIFTS_H_
