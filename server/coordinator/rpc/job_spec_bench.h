// Checks a job's benchmark.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_BENCH_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_BENCH_H_

#include "ringmaster/v1/job.pb.h"
#include "server/coordinator/rpc/job_spec_errors.h"

namespace ringmaster::coordinator {

// Fills in `bench`'s defaults, and adds to `errors` what is wrong with it, or
// with the number of `workers` for it: figures are of one number of ranks.
void CheckBench(v1::BenchProgram& bench, const v1::WorkerRange& workers,
                SpecErrors& errors);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_BENCH_H_
