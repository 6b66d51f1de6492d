// TrainInRounds trains a job as its only rank, for benchmarks: round after
// round of steps, timed, with nothing under way between two of them.
//
// A step is what a worker's is (GenerationRun): the batch from the data set and
// its way to the device, forward, backward, the commit exchange, the update.
#ifndef RINGMASTER_WORKER_TRAIN_TESTING_TIMED_ROUNDS_H_
#define RINGMASTER_WORKER_TRAIN_TESTING_TIMED_ROUNDS_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/train/state/accelerator.h"

namespace ringmaster {

struct TimedRound {
  int64_t steps = 0;
  absl::Duration duration;  // from an idle device to an idle device
  // The part of it in which the device computed, by its own clock: passes and
  // updates. For the rest it waited for the host.
  absl::Duration computed;
  double loss = 0;  // of the last step
};

struct RoundsControl {
  // Waits until the accelerator has done all that was queued.
  std::function<absl::Status()> await_idle;
  // Gets the round that has ended (an empty one at first) and returns how many
  // steps the next one has; 0: none follows.
  std::function<int64_t(const TimedRound&)> next;
};

// `program` has its defaults filled in, and more steps than all rounds.
// `accelerator` may be null: this thread computes. Errors as those of JobRunner's
// Prepare and Run;
//   OUT_OF_RANGE  the program's steps were too few
[[nodiscard]] absl::Status TrainInRounds(const v1::TrainProgram& program,
                                         Accelerator* accelerator,
                                         const RoundsControl& control);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_TESTING_TIMED_ROUNDS_H_
