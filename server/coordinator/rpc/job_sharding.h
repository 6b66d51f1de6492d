// How a job spreads its parameters, and which values of its spec the core
// keeps. Pure.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SHARDING_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SHARDING_H_

#include <string>

#include "common/job/job_spec.h"
#include "common/protocol/proto_time.h"
#include "ringmaster/v1/job.pb.h"
#include "server/coordinator/core/state/types.h"

namespace ringmaster::coordinator {

// Returns how the job of `spec`, which is valid, spreads its parameters.
[[nodiscard]] Sharding ShardingOf(const v1::JobSpec& spec);

// Returns a warning if the loss of a member would cost the job of `spec`, which
// is valid, more than necessary; empty otherwise.
[[nodiscard]] std::string WarningOf(const v1::JobSpec& spec);

// Sets the values that the core keeps of `spec`, which ValidateAndDefault
// returned, in a SubmitRequested or a HeldJob: both describe a job by the same
// values.
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

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SHARDING_H_
