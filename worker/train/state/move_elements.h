// MoveElements sends elements of an arena to the ranks that lack them.
#ifndef RINGMASTER_WORKER_TRAIN_STATE_MOVE_ELEMENTS_H_
#define RINGMASTER_WORKER_TRAIN_STATE_MOVE_ELEMENTS_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/clock/clock.h"
#include "worker/collective/communicator.h"
#include "worker/train/state/broadcast_pieces.h"
#include "worker/train/state/moment_parts.h"

namespace ringmaster {

// Called by every rank at the same point, with the same `transfers`
// (PlanTransfers), each of which is read from the `arena` of its source. On this
// rank the elements of `lacked` are written to, and no others. Many short ranges
// travel as one piece. `options.source` is not used. On an error some of
// `lacked` may have been written to. Errors as BroadcastPieces.
[[nodiscard]] absl::Status MoveElements(absl::Span<const Transfer> transfers,
                                        absl::Span<float> arena,
                                        const ElemRanges& lacked,
                                        const BroadcastOptions& options,
                                        Communicator& communicator,
                                        const Clock& clock);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STATE_MOVE_ELEMENTS_H_
