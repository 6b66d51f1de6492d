// Re-forming: what follows once all members of a generation have halted.
//
// Those who are left hold steps (survivors) or nothing (blanks: they were
// interrupted while the state was being copied to them, or came back without
// it). With idle workers of the pool they make the next generation, at once; if
// they are fewer than min, the job waits for workers: GATHERING, its members
// halted with their state. Who holds nothing is a newcomer of the next
// generation. Who leaves and is not needed any more is let go before
// (hand_over.h). If nobody holds the steps that were applied, the job is rolled
// back: its members begin anew, from a checkpoint if they find one.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_REFORM_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_REFORM_H_

#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Forms the next generation of `job`, whose members are halted or lost, or lets
// it wait for workers or for the journal. Also called, in a wait, whenever
// something may have changed.
void Reform(Turn& turn, Job& job);

// Returns true if `job` is GATHERING for a next generation, not for its first.
[[nodiscard]] bool IsWaiting(const Job& job);

// Counts a rollback of `job`, which has not been set back yet.
void CountRollback(Job& job);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_REFORM_H_
