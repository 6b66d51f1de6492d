#include "worker/train/state/broadcast_pieces.h"

#include <algorithm>
#include <span>
#include <vector>

#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

constexpr size_t kPieceElems = size_t{4} << 20;

// Broadcasts `count` elements; `target` returns the buffer of a piece.
template <typename Target>
absl::Status Exchange(size_t count, const BroadcastOptions& options,
                      Communicator& communicator, const Clock& clock,
                      const Target& target) {
  for (size_t begin = 0; begin < count; begin += kPieceElems) {
    RETURN_IF_ERROR(options.before_piece());
    const BufferView piece =
        target(begin, std::min(kPieceElems, count - begin));
    RETURN_IF_ERROR(communicator.Run(Broadcast(piece, options.source),
                                     clock.Now() + options.wait_timeout));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BroadcastPieces(absl::Span<float> elems,
                             const BroadcastOptions& options,
                             Communicator& communicator, const Clock& clock) {
  return Exchange(
      elems.size(), options, communicator, clock,
      [elems](size_t begin, size_t size) {
        return BufferView::Of(std::span<float>(elems.data() + begin, size));
      });
}

absl::Status GivePieces(absl::Span<const float> elems,
                        const BroadcastOptions& options,
                        Communicator& communicator, const Clock& clock) {
  const bool is_source = communicator.rank() == options.source;
  std::vector<float> scratch(is_source ? 0
                                       : std::min(elems.size(), kPieceElems));
  return Exchange(elems.size(), options, communicator, clock,
                  [&](size_t begin, size_t size) {
                    // A broadcast only reads its source's buffer.
                    float* const data =
                        is_source ? const_cast<float*>(elems.data()) + begin
                                  : scratch.data();
                    return BufferView::Of(std::span<float>(data, size));
                  });
}

absl::Status BroadcastPieces(const BufferView& elems, const BufferView* scratch,
                             const BroadcastOptions& options,
                             Communicator& communicator, const Clock& clock) {
  return Exchange(static_cast<size_t>(elems.count), options, communicator,
                  clock, [&](size_t begin, size_t size) {
                    BufferView piece = scratch == nullptr ? elems : *scratch;
                    if (scratch == nullptr)
                      piece.ptr = static_cast<float*>(elems.ptr) + begin;
                    piece.count = static_cast<int64_t>(size);
                    return piece;
                  });
}

}  // namespace ringmaster
