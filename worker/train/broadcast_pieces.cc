#include "worker/train/broadcast_pieces.h"

#include <algorithm>
#include <span>

#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

constexpr size_t kPieceElems = size_t{4} << 20;

}  // namespace

absl::Status BroadcastPieces(absl::Span<float> elems,
                             const BroadcastOptions& options,
                             Communicator& communicator, const Clock& clock,
                             std::vector<float>* scratch) {
  const bool is_discarded =
      scratch != nullptr && communicator.rank() != options.source;
  if (is_discarded) scratch->resize(std::min(elems.size(), kPieceElems));
  while (!elems.empty()) {
    RETURN_IF_ERROR(options.before_piece());
    const absl::Span<float> piece = elems.subspan(0, kPieceElems);
    elems.remove_prefix(piece.size());
    const std::span<float> target(is_discarded ? scratch->data() : piece.data(),
                                  piece.size());
    RETURN_IF_ERROR(
        communicator.Run(Broadcast(BufferView::Of(target), options.source),
                         clock.Now() + options.wait_timeout));
  }
  return absl::OkStatus();
}

}  // namespace ringmaster
