// The paths that a job names, held against the directories that this process may read
// and write for jobs (common/files/file_roots.h), before any of them is opened.
#ifndef RINGMASTER_WORKER_TRAIN_STATE_JOB_PATHS_H_
#define RINGMASTER_WORKER_TRAIN_STATE_JOB_PATHS_H_

#include "absl/status/status.h"
#include "common/files/file_roots.h"

namespace ringmaster {

namespace v1 {
class TrainProgram;
}  // namespace v1

// Returns OK if `files` refuses none of the paths in `program`; else the first Refusal,
// after the field's name. Those of fields with the rule path_of count; the directory of
// checkpoints is to be written, all others to be read.
[[nodiscard]] absl::Status CheckPaths(const v1::TrainProgram& program,
                                      const FileRoots& files);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STATE_JOB_PATHS_H_
