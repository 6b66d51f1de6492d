// Checks how a job's ranks reduce.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_COLLECTIVE_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_COLLECTIVE_H_

#include <string>

#include "ringmaster/v1/job.pb.h"
#include "server/coordinator/rpc/job_spec_errors.h"

namespace ringmaster::coordinator {

// Adds to `errors` what is wrong with `spec`, the field `path` ("train.
// collective"): values that this build does not know, or too many connections.
// Nothing has a default: what is left out is chosen by the workers.
void CheckCollective(const v1::CollectiveSpec& spec, const std::string& path,
                     SpecErrors& errors);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_COLLECTIVE_H_
