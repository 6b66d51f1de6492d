// BroadcastPieces sends a long array from one rank to all, in pieces small
// enough that each wait is short and progress is visible.
#ifndef RINGMASTER_WORKER_TRAIN_STATE_BROADCAST_PIECES_H_
#define RINGMASTER_WORKER_TRAIN_STATE_BROADCAST_PIECES_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/clock/clock.h"
#include "worker/collective/communicator.h"

namespace ringmaster {

struct BroadcastOptions {
  int source = 0;
  absl::Duration wait_timeout;  // of each piece
  // Before each piece, on this rank; an error ends the broadcast.
  std::function<absl::Status()> before_piece = [] { return absl::OkStatus(); };
};

// Called by every rank at the same point, with equally many elements. `elems`
// is read on the source and written to, piece by piece, elsewhere. On an error
// the elements are partly those of the source. Errors as Communicator::Wait,
// and before_piece's.
[[nodiscard]] absl::Status BroadcastPieces(absl::Span<float> elems,
                                           const BroadcastOptions& options,
                                           Communicator& communicator,
                                           const Clock& clock);

// The same on a rank that has the elements: `elems` is read on the source, and
// other ranks throw away what they receive.
[[nodiscard]] absl::Status GivePieces(absl::Span<const float> elems,
                                      const BroadcastOptions& options,
                                      Communicator& communicator,
                                      const Clock& clock);

// The same of float32 elements in any memory. A rank that has the elements, and
// is not the source, names other memory for them, `scratch`, of a piece or as
// long as `elems`: what a broadcast that fails leaves behind is undefined.
[[nodiscard]] absl::Status BroadcastPieces(const BufferView& elems,
                                           const BufferView* scratch,
                                           const BroadcastOptions& options,
                                           Communicator& communicator,
                                           const Clock& clock);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STATE_BROADCAST_PIECES_H_
