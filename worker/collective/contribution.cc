#include "worker/collective/contribution.h"

#include <cstddef>

#include "common/plan/fold.h"

namespace ringmaster {
namespace {

// Returns true if the frames of `step` that `peer` sends carry its own
// contribution. The marks are those of the schedules: 0 is the first step
// everywhere.
bool IsContribution(int step, int peer, Algorithm algorithm,
                    const Topology& topology) {
  if (step == 0) return true;
  switch (algorithm) {
    case Algorithm::kHalvingDoubling:
      // The first halving, unless another rank was folded into the peer.
      return step == 1 && !Fold(topology.world_size()).IsHost(peer);
    case Algorithm::kHierarchical:
      // The first step between hosts, unless the peer's host has other ranks:
      // 0 and 1 are marks inside a host.
      return step == 2 && topology.RanksOf(topology.HostOf(peer)).size() == 1;
    default:
      return false;
  }
}

}  // namespace

int OwnerOfElements(const OperationQueue::Item& item, int rank) {
  // Nothing has come over them yet.
  if (item.after == nullptr) return rank;
  const auto index = static_cast<size_t>(item.operation.after_count - 1);
  const Operation& before = item.after->items[index].operation;
  if (before.is_reduced) return -1;
  return before.kind == Operation::Kind::kReceive ? before.peer : rank;
}

int OwnerOfOther(const OperationQueue::Item& item, int rank,
                 Algorithm algorithm, const Topology& topology) {
  const Operation& operation = item.operation;
  // Scratch holds copies of the own elements.
  if (operation.kind == Operation::Kind::kLocal) return rank;
  const bool is_own =
      IsContribution(operation.step, operation.peer, algorithm, topology);
  return is_own ? operation.peer : -1;
}

}  // namespace ringmaster
