// CheckBenchMemory refuses a benchmark that a host's memory cannot hold, before
// anything of it is touched: better than to have the kernel kill somebody.
#ifndef RINGMASTER_WORKER_BENCH_MEMORY_NEEDS_H_
#define RINGMASTER_WORKER_BENCH_MEMORY_NEEDS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/plan/topology.h"
#include "worker/bench/all_reduce_options.h"
#include "worker/collective/cost_model.h"

namespace ringmaster {

// The most that `rank` has at one time: the buffer, what the algorithm's schedule
// keeps beside it (an exchange as much again), and what it shares with the ranks
// of its host; or what is copied to measure the limit.
[[nodiscard]] int64_t BenchBytesOf(int rank,
                                   const AllReduceBenchOptions& options,
                                   const Topology& topology,
                                   const AlgorithmPolicy& policy);

// RESOURCE_EXHAUSTED names the flag that has to change, if what all ranks of
// the host of `rank` need is more than `available_bytes`; -1: unknown, and never
// too little.
[[nodiscard]] absl::Status CheckBenchMemory(
    int rank, const AllReduceBenchOptions& options, const Topology& topology,
    const AlgorithmPolicy& policy, int64_t available_bytes);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_BENCH_MEMORY_NEEDS_H_
