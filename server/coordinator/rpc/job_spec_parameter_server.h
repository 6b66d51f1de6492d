// The parameter servers of a job's spec: defaults, bounds, and warnings for its
// author. Pure.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_PARAMETER_SERVER_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_PARAMETER_SERVER_H_

#include <string>

#include "ringmaster/v1/job.pb.h"
#include "server/coordinator/core/types.h"
#include "server/coordinator/rpc/job_spec_errors.h"

namespace ringmaster::coordinator {

// Fills in the defaults of train.parameter_server, if there is one, and adds
// what is wrong with it, or does not go together with it, to `errors`. The
// optimizer has its defaults already.
void CheckParameterServer(v1::TrainProgram& train, int32_t max_workers,
                          SpecErrors& errors);

// Returns how the job of `spec`, which is valid, spreads its parameters.
[[nodiscard]] Sharding ShardingOf(const v1::JobSpec& spec);

// Returns a warning if a loss would cost the job of `spec`, which is valid,
// more than it has to; empty otherwise.
[[nodiscard]] std::string WarningOf(const v1::JobSpec& spec);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_PARAMETER_SERVER_H_
