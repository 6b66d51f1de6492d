// ValidateAndDefault checks a job's spec once, at the edge, and fills in the
// defaults that job.proto documents.
//
// What passes here needs no further checks by the coordinator; whether a path
// exists and is readable only the workers can tell. Pure.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_H_

#include <string>

#include "absl/status/statusor.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster::coordinator {

// Returns `spec` with its defaults.
//   INVALID_ARGUMENT/INVALID_JOB_SPEC  names each bad field by its path, its
//   bounds and its value, as in
//                                      "train.steps must be at least 1, got 0";
//                                      at most ten of them
[[nodiscard]] absl::StatusOr<v1::JobSpec> ValidateAndDefault(v1::JobSpec spec);

// The spec's bytes, the same for equal specs: those of a message with a map may
// otherwise come in any order.
[[nodiscard]] std::string SerializeSpec(const v1::JobSpec& spec);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_H_
