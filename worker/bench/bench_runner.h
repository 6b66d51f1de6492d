// MakeBenchRunner makes the JobRunner that measures all-reduces instead of
// training: a job's BenchProgram.
//
// Each size is a step, but none is applied before all are measured: after a
// fault the next generation begins with the first size, since its figures would
// be those of other ranks. All ranks have all figures; rank 0 shows them
// (TrainProgress::bench).
// A rank on which elements were wrong ends with INTERNAL, after the last size.
#ifndef RINGMASTER_WORKER_BENCH_BENCH_RUNNER_H_
#define RINGMASTER_WORKER_BENCH_BENCH_RUNNER_H_

#include <cstdint>
#include <memory>

#include "common/clock/clock.h"
#include "worker/bench/all_reduce_options.h"
#include "worker/member/job_runner.h"

namespace ringmaster {

class Listener;

// `listener` is the process's data plane. It and the clock must outlive the
// runner. `copy_bytes` as of AllReduceBenchOptions: less is for tests.
[[nodiscard]] std::unique_ptr<JobRunner> MakeBenchRunner(
    Clock& clock, const Listener& listener,
    int64_t copy_bytes = AllReduceBenchOptions().copy_bytes);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_BENCH_BENCH_RUNNER_H_
