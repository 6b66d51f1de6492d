// StartFromCheckpoint makes all ranks of a generation start from the latest
// complete checkpoint that any of them can read.
//
// The lowest rank that has the newest one reads it and broadcasts it, so the
// number of ranks may be another than when it was written, and hosts without
// the files take part. A damaged checkpoint is passed over for the next older
// one. One that is there and cannot be read (no permission, a disk that fails) may be
// whole: unless another rank reads one of the same step, training does not start.
// Guarantees: a rank's state changes to the checkpoint's step only once all
// ranks hold it (TrainingState's header explains how a fault in between is
// settled).
// Thread-safety: on the training thread, on every rank at the same point.
#ifndef RINGMASTER_WORKER_TRAIN_STATE_CHECKPOINT_START_H_
#define RINGMASTER_WORKER_TRAIN_STATE_CHECKPOINT_START_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/transport/cancel_token.h"
#include "worker/checkpoint/disk_progress.h"
#include "worker/collective/communicator.h"
#include "worker/train/state/training_state.h"

namespace ringmaster {

struct CheckpointStart {
  int64_t step = 0;     // 0: there is none, training starts from the beginning
  int source_rank = 0;  // who read it
  // On the source: the checkpoint's path, the job that wrote it, if it says so, and
  // a description of what was passed over or differs in its job; otherwise empty.
  std::string path;
  std::string job_id;
  std::string remark;
};

// "starts from /data/step-40; its data were others": for people.
[[nodiscard]] std::string DescribeStart(const CheckpointStart& start);

// Requires state.applied_step() == 0 and a directory of checkpoints. `progress`
// counts the bytes read.
//   INVALID_ARGUMENT  the checkpoint is of another model or optimizer; the same
//                     message on every rank
//   PERMISSION_DENIED the newest checkpoint, or the directory, cannot be read; the
//                     same on every rank; exit code 5
//   ABORTED           `cancel` was cancelled
// and the errors of Communicator::Wait.
[[nodiscard]] absl::StatusOr<CheckpointStart> StartFromCheckpoint(
    TrainingState& state, Communicator& communicator,
    absl::Duration wait_timeout, Clock& clock, const CancelToken& cancel,
    DiskProgress& progress);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STATE_CHECKPOINT_START_H_
