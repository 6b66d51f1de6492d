// The model of a job's spec: defaults and bounds. Pure.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_MODEL_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_MODEL_H_

#include "ringmaster/v1/job.pb.h"
#include "server/coordinator/rpc/job_spec_errors.h"

namespace ringmaster::coordinator {

// Fills in the defaults of train.model, a preset's values included, and adds
// what is wrong with it to `errors`.
void CheckModel(v1::TrainProgram& train, SpecErrors& errors);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_MODEL_H_
