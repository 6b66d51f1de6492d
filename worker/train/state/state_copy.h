// CopyState brings newcomers to a running job to where the others are, before
// the first step of a generation.
//
// Where the moments are sharded, it also gives every rank its part of them
// (settle_parts.h), whether or not there are newcomers.
// All ranks take part: they compare positions, the source broadcasts parameters
// and moments in pieces, and all compare the hash of the result. The rest of a
// state follows from the step (data, learning rate) or comes with the
// comparison (the updates skipped in a row).
// If the hashes differ, the ranks that held the state before vote (copy_vote.h):
// the odd ones fail, and the others are to begin again without them. Without a
// majority nobody can tell which state is right, so no rank keeps its own.
// Guarantees: the state of a rank that is no newcomer is not written to, but
// where it is in parts; it loses its steps only by such a vote, or, where a part
// is lost, together with all others. A newcomer is at step 0 until it and all
// others are known to hold the same; interrupted before, it holds nothing. An abort of the communicator or the
// token interrupts within milliseconds.
// Thread-safety: on the training thread, on every rank at the same point.
#ifndef RINGMASTER_WORKER_TRAIN_STATE_STATE_COPY_H_
#define RINGMASTER_WORKER_TRAIN_STATE_STATE_COPY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/plan/topology.h"
#include "common/transport/cancel_token.h"
#include "worker/collective/communicator.h"
#include "worker/train/state/training_state.h"

namespace ringmaster {

struct StateCopyOptions {
  int source_rank = 0;  // -1: there are no newcomers
  const Topology& ranks;
  bool is_newcomer = false;
  int64_t resume_step = 0;      // where all ranks are in the end
  absl::Duration wait_timeout;  // for a peer
};

//   FAILED_PRECONDITION  the source does not hold the step, or a rank is at
//                        another one; the same on every rank, both named. Or
//                        this rank holds another state than the majority
//   UNAVAILABLE          other ranks do; or there is no majority, and the rank
//                        that BlamedPeer names holds another one
//                        (OtherStateError)
//   ABORTED              `cancel` was cancelled
// and the errors of Communicator::Wait.
[[nodiscard]] absl::Status CopyState(TrainingState& state,
                                     Communicator& communicator,
                                     const StateCopyOptions& options,
                                     const Clock& clock,
                                     const CancelToken& cancel);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STATE_STATE_COPY_H_
