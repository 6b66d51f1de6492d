// Re-forming: the next generation, once all members of the last have halted.
//
// The remaining members hold steps (survivors) or nothing (blanks: they were
// interrupted while the state was being copied to them, or came back without
// it). Together with idle workers of the pool they form the next generation at
// once; if they are fewer than min, the job waits for workers: GATHERING, its
// members halted with their state. Blanks are newcomers of the next generation.
// Leavers that are no longer needed are released before, and those that are
// may make the next generation one without a step (hand_over.h). If no
// member holds the steps that were applied, the job is rolled back: its members
// start again, from a checkpoint if they find one.
// Generations that come to nothing, one after another, follow more and more
// slowly: the job rests before the next, up to 5 s.
// A job that is cancelled meanwhile is closed instead: those who hold the steps
// write a checkpoint.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_REFORM_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_REFORM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Forms the next generation of `job`, whose members are halted or lost, or lets
// it wait for workers or for the journal. Also called while it waits, whenever
// something may have changed.
void Reform(Turn& turn, Job& job);

// Returns true if the members of `job`, which are halted, hold steps that they write
// a checkpoint of before a cancel ends the job.
[[nodiscard]] bool SavesBeforeEnd(const State& state, const Job& job);

// Ends `job`, which a user has cancelled and whose members are halted, and answers
// `waiting` once that is durable; or forms a generation that writes a checkpoint
// first, as the members of a job that runs do when they are asked to stop. That is
// tried a few times.
void EndCancelled(Turn& turn, Job& job, std::vector<RequestToken> waiting = {});

// "; step 40 is in no checkpoint, since ...": what a cancel says of the last step,
// `step`, of a job that keeps checkpoints; empty if there is one of it.
[[nodiscard]] std::string UnsavedText(const Job& job, int64_t step);

// Returns true if `rank` alone has some shard in the present generation of `job`.
[[nodiscard]] bool IsLastOfPlaced(const Job& job, int rank);

// Returns true if `job` is GATHERING for a next generation, not for its first.
[[nodiscard]] bool IsWaiting(const Job& job);

// Returns what it costs `job` that `member` leaves now, as a clause: "40 steps
// are lost, since ..."; empty if it costs nothing, or if that is not known.
[[nodiscard]] std::string LossByLeaving(const Job& job, const Member& member);

// Counts a rollback of `job`, before its state is reset.
void CountRollback(Job& job);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_REFORM_H_
