// CheckJob prepares a job on this host part by part, as a rank would, without a
// coordinator and without training.
#ifndef RINGMASTER_WORKER_TRAIN_OUTPUT_JOB_CHECK_H_
#define RINGMASTER_WORKER_TRAIN_OUTPUT_JOB_CHECK_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {

// A part of a job's preparation.
struct PartCheck {
  std::string part;     // "memory", "data"
  std::string found;    // in words, if it can be prepared
  absl::Status status;  // a rank's error otherwise
};

struct JobCheckOptions {
  int world_size = 1;     // ranks of the job: each has its part of a batch
  int ranks_on_host = 1;  // of these
  // Ranks compute on GPUs, whose memory is not looked at.
  bool has_accelerator = false;
};

// Reads all data and all files that the job names, as far as ProcessFiles allows:
// "files" if it refuses one, else "data", "memory", and, where
// the job has them, "initial parameters" and "sample". The memory that an
// activation takes is known only once it is allocated.
[[nodiscard]] std::vector<PartCheck> CheckJob(const v1::TrainProgram& program,
                                              const JobCheckOptions& options);

// `worker check`: reads a JobSpec (the message's bytes) from standard input and
// writes its parts to standard output, as a JSON array of objects with "part",
// "found", "error" and "exit_code". argv[0] is "worker check". Returns the
// process's exit code: 0 once all parts were looked at.
int CheckCommand(int argc, char** argv);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_OUTPUT_JOB_CHECK_H_
