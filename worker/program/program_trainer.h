// MakeProgramTrainer makes the Trainer that a worker has: it lets the trainer
// of a job's program run it.
//
// A job has one program, so one of the trainers works at a time. Progress and
// outcomes are those of the trainer that prepared last; metrics and the bytes
// of checkpoints are always those of `train`. Requests to abort, stop, drain or
// release, and callbacks, go to both.
#ifndef RINGMASTER_WORKER_PROGRAM_PROGRAM_TRAINER_H_
#define RINGMASTER_WORKER_PROGRAM_PROGRAM_TRAINER_H_

#include <memory>

#include "worker/train/trainer.h"

namespace ringmaster {

// `train` is for TrainProgram, `bench` for BenchProgram. Prepare of a job with
// another program is INVALID_ARGUMENT.
[[nodiscard]] std::unique_ptr<Trainer> MakeProgramTrainer(
    std::unique_ptr<Trainer> train, std::unique_ptr<Trainer> bench);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PROGRAM_PROGRAM_TRAINER_H_
