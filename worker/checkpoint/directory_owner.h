// A directory of checkpoints belongs to the job that began it.
//
// Its file .owner holds that job's id, "gpt2-7", and is never written again. Jobs of the
// same name are one owner: a job that is submitted again goes on with its own
// checkpoints. Whoever removes the file gives the directory to the next job that names
// it; a directory of a release that knew no owners is taken over so.
// Thread-safe, also between processes and hosts.
#ifndef RINGMASTER_WORKER_CHECKPOINT_DIRECTORY_OWNER_H_
#define RINGMASTER_WORKER_CHECKPOINT_DIRECTORY_OWNER_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace ringmaster {

// The name of the job with this id: "gpt2" of "gpt2-7". "" for text that is no id.
[[nodiscard]] std::string_view JobNameOf(std::string_view job_id);

// Makes `directory`, if it is missing, that of the job `job_id`, durably, unless it has an
// owner already; OK if it belongs to this job or another one of its name.
//   FAILED_PRECONDITION  it belongs to another job, with IsOthersDirectory; names that and
//                        says what to do
//   DATA_LOSS            the file holds no id
// and FileError's; errors name the path. Fail point: checkpoint.owner (the id is durable
// and not yet in its place).
[[nodiscard]] absl::Status ClaimDirectory(const std::string& directory,
                                          std::string_view job_id);

// Returns true for ClaimDirectory's refusal of another job's directory, however annotated.
[[nodiscard]] bool IsOthersDirectory(const absl::Status& status);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_CHECKPOINT_DIRECTORY_OWNER_H_
