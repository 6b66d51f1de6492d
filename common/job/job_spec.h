// A job's spec, defaulted and checked: by whoever writes one, by the coordinator
// once, at the edge, and by each worker, all by the rules that the fields of
// job.proto carry. Pure.
#ifndef RINGMASTER_COMMON_JOB_JOB_SPEC_H_
#define RINGMASTER_COMMON_JOB_JOB_SPEC_H_

#include <string>

#include "absl/status/statusor.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {

// Returns `spec` with its defaults. One that passes needs no further checks by
// the coordinator; only the workers can tell whether a path exists and is
// readable.
//   INVALID_ARGUMENT/INVALID_JOB_SPEC  names each bad field by its path, its
//   bounds and its value, as in
//                                      "train.steps must be at least 1, got 0";
//                                      at most ten of them
[[nodiscard]] absl::StatusOr<v1::JobSpec> ValidateAndDefault(v1::JobSpec spec);

// Returns a program with its defaults, each field checked by itself: a worker
// does not rely on its coordinator. Errors as above.
[[nodiscard]] absl::StatusOr<v1::TrainProgram> DefaultProgram(
    v1::TrainProgram program);
[[nodiscard]] absl::StatusOr<v1::BenchProgram> DefaultProgram(
    v1::BenchProgram program);

// The spec's bytes, the same for equal specs: those of a message with a map may
// otherwise come in any order.
[[nodiscard]] std::string SerializeSpec(const v1::JobSpec& spec);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_JOB_JOB_SPEC_H_
