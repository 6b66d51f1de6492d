// The data of a job's spec: defaults, bounds, and whether the model takes such
// data. Pure.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_DATA_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_DATA_H_

#include "ringmaster/v1/job.pb.h"
#include "server/coordinator/rpc/job_spec_errors.h"

namespace ringmaster::coordinator {

// Fills in the defaults of train.data and adds what is wrong with it to
// `errors`. CheckModel has filled in the model's.
void CheckDataSource(v1::TrainProgram& train, SpecErrors& errors);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_DATA_H_
