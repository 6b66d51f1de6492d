// RunServerRanks trains one generation of a job with parameter servers: workers
// and servers as threads of this process.
//
// For tests that look at parameters, which the JobRunner interface does not show;
// whole trainers with servers: server_job.h.
#ifndef RINGMASTER_WORKER_TRAIN_TESTING_SERVER_RANKS_H_
#define RINGMASTER_WORKER_TRAIN_TESTING_SERVER_RANKS_H_

#include <memory>
#include <vector>

#include "ringmaster/v1/job.pb.h"
#include "worker/train/testing/rank_threads.h"

namespace ringmaster {

struct ServerRanksOptions {
  int workers = 2;
  int servers = 1;
  int replicas = 0;
};

// Results in the order of the workers' ranks. `program` has a parameter_server.
std::vector<std::unique_ptr<RankResult>> RunServerRanks(
    const v1::TrainProgram& program, const ServerRanksOptions& options);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_TESTING_SERVER_RANKS_H_
