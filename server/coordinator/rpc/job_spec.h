// ValidateAndDefault checks a job's spec once, at the edge, and fills in the
// defaults that job.proto documents.
//
// A spec that passes needs no further checks by the coordinator; only the
// workers can tell whether a path exists and is readable. Pure.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/proto_time.h"
#include "ringmaster/v1/job.pb.h"
#include "server/coordinator/rpc/job_spec_parameter_server.h"

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

// Sets what the core keeps of `spec`, which ValidateAndDefault returned, in a
// SubmitRequested or a HeldJob: a worker tells of a job by the same values by
// which it was submitted.
template <typename CoreJob>
void SetFromSpec(const v1::JobSpec& spec, CoreJob& job) {
  job.name = spec.name();
  job.spec = SerializeSpec(spec);
  job.min_workers = spec.workers().min();
  job.max_workers = spec.workers().max();
  job.settle = FromProto(spec.workers().settle());
  // A benchmark's steps are its sizes.
  job.total_steps =
      spec.has_bench() ? spec.bench().sizes_size() : spec.train().steps();
  job.sharding = ShardingOf(spec);
}

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_H_
