#include "worker/train/state/initial_parameters.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/status/status_macros.h"
#include "worker/train/state/broadcast_pieces.h"

namespace ringmaster {

absl::StatusOr<std::vector<int>> ShareInitialParameters(
    TrainingState& state, Communicator& communicator,
    absl::Duration wait_timeout, const Clock& clock) {
  std::vector<int64_t> hashes(static_cast<size_t>(communicator.world_size()));
  const auto rank = static_cast<size_t>(communicator.rank());
  hashes[rank] = static_cast<int64_t>(state.ParametersHash());
  RETURN_IF_ERROR(
      communicator.Run(AllGather(BufferView::Of(std::span<int64_t>(hashes))),
                       clock.Now() + wait_timeout));
  std::vector<int> others;
  for (size_t i = 1; i < hashes.size(); ++i)
    if (hashes[i] != hashes[0]) others.push_back(static_cast<int>(i));
  if (others.empty()) return others;
  const BroadcastOptions options = {.source = 0, .wait_timeout = wait_timeout};
  RETURN_IF_ERROR(hashes[rank] == hashes[0]
                      ? GivePieces(state.parameters().Elems<float>(), options,
                                   communicator, clock)
                      : BroadcastPieces(state.MutableArenas().parameters,
                                        options, communicator, clock));
  return others;
}

}  // namespace ringmaster
