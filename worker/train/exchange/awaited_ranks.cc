#include "worker/train/exchange/awaited_ranks.h"

#include <cstddef>

namespace ringmaster {
namespace {

constexpr double kNewWeight = 0.1;

}  // namespace

void AwaitedRanks::NoteStep(const ParameterSync& sync) {
  const bool is_first = waits_.empty();
  waits_.resize(static_cast<size_t>(sync.peer_ranks()));
  for (size_t rank = 0; rank < waits_.size(); ++rank) {
    Wait& wait = waits_[rank];
    const absl::Duration total = sync.WaitedFor(static_cast<int>(rank));
    const absl::Duration waited = total - wait.total;
    wait.total = total;
    wait.per_step = is_first
                        ? waited
                        : wait.per_step + kNewWeight * (waited - wait.per_step);
  }
}

AwaitedRanks::Most AwaitedRanks::most() const {
  Most most;
  for (size_t rank = 0; rank < waits_.size(); ++rank) {
    if (waits_[rank].per_step <= most.per_step) continue;
    most = {static_cast<int>(rank), waits_[rank].per_step};
  }
  return most;
}

}  // namespace ringmaster
