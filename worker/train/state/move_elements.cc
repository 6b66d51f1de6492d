#include "worker/train/state/move_elements.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

constexpr int64_t kPieceElems = int64_t{4} << 20;

// Transfers of one source that travel together.
struct Piece {
  int source = 0;
  int64_t count = 0;
  ElemRanges ranges = {};
};

std::vector<Piece> CutIntoPieces(absl::Span<const Transfer> transfers) {
  std::vector<Piece> pieces;
  for (const Transfer& transfer : transfers) {
    ElemRange left = transfer.range;
    while (left.count > 0) {
      if (pieces.empty() || pieces.back().source != transfer.source ||
          pieces.back().count == kPieceElems) {
        pieces.push_back({transfer.source});
      }
      Piece& piece = pieces.back();
      const int64_t count = std::min(left.count, kPieceElems - piece.count);
      piece.ranges.push_back({left.begin, count});
      piece.count += count;
      left = {left.begin + count, left.count - count};
    }
  }
  return pieces;
}

absl::Span<float> At(absl::Span<float> elems, ElemRange range) {
  return elems.subspan(static_cast<size_t>(range.begin),
                       static_cast<size_t>(range.count));
}

}  // namespace

absl::Status MoveElements(absl::Span<const Transfer> transfers,
                          absl::Span<float> arena, const ElemRanges& lacked,
                          const BroadcastOptions& options,
                          Communicator& communicator, const Clock& clock) {
  std::vector<float> packed;
  for (const Piece& piece : CutIntoPieces(transfers)) {
    RETURN_IF_ERROR(options.before_piece());
    packed.resize(static_cast<size_t>(piece.count));
    const absl::Span<float> elems(packed);
    if (piece.source == communicator.rank()) {
      int64_t at = 0;
      for (const ElemRange& range : piece.ranges) {
        std::ranges::copy(At(arena, range),
                          At(elems, {at, range.count}).begin());
        at += range.count;
      }
    }
    RETURN_IF_ERROR(communicator.Run(
        Broadcast(BufferView::Of(std::span<float>(packed)), piece.source),
        clock.Now() + options.wait_timeout));
    if (piece.source == communicator.rank()) continue;
    int64_t at = 0;
    for (const ElemRange& range : piece.ranges) {
      auto next =
          std::ranges::upper_bound(lacked, range.begin, {}, &ElemRange::end);
      for (; next != lacked.end() && next->begin < range.end(); ++next) {
        const int64_t begin = std::max(next->begin, range.begin);
        const int64_t count = std::min(next->end(), range.end()) - begin;
        std::ranges::copy(At(elems, {at + begin - range.begin, count}),
                          At(arena, {begin, count}).begin());
      }
      at += range.count;
    }
  }
  return absl::OkStatus();
}

}  // namespace ringmaster
