// ShareInitialParameters makes all ranks begin a job with the same parameters.
//
// Each rank reads the file that the job names for itself, when it prepares. The
// name may stand for another file by then: a link `latest` that another job
// moves on, a copy of a host that is of another day. What rank 0 has read
// counts, and the others take it from there; nothing is copied if all have read
// the same.
//
// Thread-safety: on the training thread, on every rank at the same point.
#ifndef RINGMASTER_WORKER_TRAIN_STATE_INITIAL_PARAMETERS_H_
#define RINGMASTER_WORKER_TRAIN_STATE_INITIAL_PARAMETERS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "worker/collective/communicator.h"
#include "worker/train/state/training_state.h"

namespace ringmaster {

// Returns the ranks that had others than rank 0, ascending; the same on every
// rank. Requires state.applied_step() == 0, and a job that names a file. After
// an error ResumeAt(0) gives a rank its own back. Errors as Communicator::Wait.
[[nodiscard]] absl::StatusOr<std::vector<int>> ShareInitialParameters(
    TrainingState& state, Communicator& communicator,
    absl::Duration wait_timeout, const Clock& clock);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STATE_INITIAL_PARAMETERS_H_
