// MakeProgramRunner makes the JobRunner that a worker has: it lets the runner
// of a job's program run it.
//
// A job has one program, so one of the runners works at a time. Progress and
// outcomes are those of the runner that prepared last; metrics and the bytes
// of checkpoints are always those of `train`. Requests to abort, stop, drain or
// release, and callbacks, go to all.
#ifndef RINGMASTER_WORKER_PROGRAM_PROGRAM_RUNNER_H_
#define RINGMASTER_WORKER_PROGRAM_PROGRAM_RUNNER_H_

#include <memory>

#include "worker/member/job_runner.h"

namespace ringmaster {

// The runners of TrainProgram, BenchProgram and ExternalProgram. Prepare of a
// job with another program is INVALID_ARGUMENT.
struct ProgramRunners {
  std::unique_ptr<JobRunner> train;
  std::unique_ptr<JobRunner> bench;
  std::unique_ptr<JobRunner> external;
};
[[nodiscard]] std::unique_ptr<JobRunner> MakeProgramRunner(
    ProgramRunners runners);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PROGRAM_PROGRAM_RUNNER_H_
