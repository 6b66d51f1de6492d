// Finds the rank that an operand of a reduction comes from.
//
// A reduction combines what lies in memory with what came over the wire, or
// with a copy in scratch. Each is one rank's own contribution, or a sum of
// several. In every algorithm each element of each rank's contribution is such
// an operand on its own once, at some rank.
// Pure.
#ifndef RINGMASTER_WORKER_COLLECTIVE_CONTRIBUTION_H_
#define RINGMASTER_WORKER_COLLECTIVE_CONTRIBUTION_H_

#include "common/plan/topology.h"
#include "worker/collective/plan_cache.h"

namespace ringmaster {

// Both take an item that is reduced, of a plan of rank `rank`, and return a
// rank, or -1 for a sum of several.

// Returns the owner of the elements before the operation.
[[nodiscard]] int OwnerOfElements(const OperationQueue::Item& item, int rank);

// Returns the owner of the operand combined with them: the received frame, or
// the copy.
[[nodiscard]] int OwnerOfOther(const OperationQueue::Item& item, int rank,
                               Algorithm algorithm, const Topology& topology);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_CONTRIBUTION_H_
