// MakeJobTrainer makes the JobRunner that really trains: data-parallel, by
// all-reduce or through parameter servers.
#ifndef RINGMASTER_WORKER_TRAIN_STEP_JOB_TRAINER_H_
#define RINGMASTER_WORKER_TRAIN_STEP_JOB_TRAINER_H_

#include <memory>

#include "common/clock/clock.h"
#include "common/parameter_server/shard_host.h"
#include "worker/member/job_runner.h"
#include "worker/train/state/accelerator.h"

namespace ringmaster {

class Listener;

// `listener` is the process's data plane. It and the clock must outlive the
// trainer. `threads` compute, the training thread included. `host` holds shards
// for jobs whose workers do; null: such jobs are refused. `accelerator` trains
// in place of the threads; null: there is none.
[[nodiscard]] std::unique_ptr<JobRunner> MakeJobTrainer(
    Clock& clock, const Listener& listener, int threads = 1,
    std::unique_ptr<ShardHost> host = nullptr,
    std::unique_ptr<Accelerator> accelerator = nullptr);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STEP_JOB_TRAINER_H_
