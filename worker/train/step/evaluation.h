// Evaluate measures the loss on the held-out part, and how many predictions are
// right, shared among the ranks.
#ifndef RINGMASTER_WORKER_TRAIN_STEP_EVALUATION_H_
#define RINGMASTER_WORKER_TRAIN_STEP_EVALUATION_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/transport/cancel_token.h"
#include "worker/collective/communicator.h"
#include "worker/figures/step_record.h"
#include "worker/train/state/training_state.h"

namespace ringmaster {

// Evaluates the program's `evaluation_samples` held-out samples (the same
// ones every time, spread over the part), equal on all ranks. Ranks share them
// and exchange sums now and then, so that a long evaluation shows progress.
// Requires that every rank calls it after the same step, and that the held-out
// part is not empty.
//   ABORTED  `cancel` was cancelled;  else as Communicator::Wait
[[nodiscard]] absl::StatusOr<EvaluationRecord> Evaluate(
    TrainingState& state, Communicator& communicator,
    absl::Duration wait_timeout, Clock& clock, const CancelToken& cancel);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STEP_EVALUATION_H_
