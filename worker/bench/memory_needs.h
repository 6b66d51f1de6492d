// CheckBenchMemory refuses a benchmark that a host's memory cannot hold before
// any of that memory is touched, so that the kernel need not kill a process.
#ifndef RINGMASTER_WORKER_BENCH_MEMORY_NEEDS_H_
#define RINGMASTER_WORKER_BENCH_MEMORY_NEEDS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/plan/topology.h"
#include "worker/bench/all_reduce_options.h"
#include "worker/collective/cost_model.h"

namespace ringmaster {

// Returns the most bytes that `rank` has at one time: the memory that it shares
// with the ranks of its host, and beside that either the buffer and the scratch
// of the algorithm's schedule (in an exchange as much again), or the bytes that
// are copied to measure the limit.
[[nodiscard]] int64_t BenchBytesOf(int rank,
                                   const AllReduceBenchOptions& options,
                                   const Topology& topology,
                                   const AlgorithmPolicy& policy);

// RESOURCE_EXHAUSTED names the flag that has to change: all ranks of the host
// of `rank` together need more than `available_bytes`. -1 is unknown, and never
// too little.
[[nodiscard]] absl::Status CheckBenchMemory(
    int rank, const AllReduceBenchOptions& options, const Topology& topology,
    const AlgorithmPolicy& policy, int64_t available_bytes);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_BENCH_MEMORY_NEEDS_H_
