// The job file: YAML with the fields of JobSpec, and changes from the command
// line.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_JOB_FILE_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_JOB_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster::ctl {

// Reads the file at `path`, or standard input to its end if that is "-", and
// applies `assignments` ("train.steps=60"), in order. INVALID_ARGUMENT is one
// line that names the file and line, or the assignment.
[[nodiscard]] absl::StatusOr<v1::JobSpec> LoadJobFile(
    const std::string& path, const std::vector<std::string>& assignments);

// Returns the name of the job file at `path` in errors: the path, or "standard
// input".
[[nodiscard]] std::string JobFileName(const std::string& path);

// `spec` as a job file: fields that are not set are left out.
[[nodiscard]] std::string ToYaml(const v1::JobSpec& spec);

// Makes `spec` a job for exactly `count` workers of this machine: at most
// `count`, at least what the spec asks for, with a wait long enough for all of
// them unless the spec sets one. `count` 0 takes the spec's own number. Returns
// how many to start; INVALID_ARGUMENT if the spec needs more than `count`.
[[nodiscard]] absl::StatusOr<int> FitToLocalWorkers(int count,
                                                    v1::JobSpec& spec);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_JOB_FILE_H_
