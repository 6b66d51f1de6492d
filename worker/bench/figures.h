// The figures of a benchmark of collectives: which sizes, how often, and what
// follows from the times. Pure.
//
// Bandwidths are those of nccl-tests (doc/PERFORMANCE.md there): `algbw` is
// bytes of the buffer over time; `busbw` is algbw * 2 * (n - 1) / n, what each
// rank sends and receives if nothing is sent in vain, so that figures of
// different numbers of ranks can be compared.
#ifndef RINGMASTER_WORKER_BENCH_FIGURES_H_
#define RINGMASTER_WORKER_BENCH_FIGURES_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace ringmaster {

// The sizes in bytes of "4K:256M": the first, and each `step` (at least 2)
// times the one before as long as the last is not exceeded. "1M" is one size.
// K, M and G are powers of 1024. A size is from 8 bytes to 64G.
// INVALID_ARGUMENT names the text and what is wrong with it.
[[nodiscard]] absl::StatusOr<std::vector<int64_t>> ParseSizes(
    std::string_view text, int step);

// How many iterations of `each` fit into `limit`: at least 3, at most `most`,
// where that is less.
[[nodiscard]] int IterationsWithin(absl::Duration limit, absl::Duration each,
                                   int most);

// The smallest of the values that at least `share` (0 to 1) of them do not
// exceed: the nearest rank. Requires at least one value, in ascending order.
[[nodiscard]] double Percentile(std::span<const double> ascending,
                                double share);

// Bytes per second.
[[nodiscard]] double AlgorithmBandwidth(int64_t bytes, double seconds);
[[nodiscard]] double BusBandwidth(int64_t bytes, double seconds, int ranks);

// The seconds that an all-reduce of `bytes` between `ranks` processes of one
// machine cannot be faster than once the buffers are in main memory: each of
// them must be read and written once, 2 * ranks * bytes, at `memory_bandwidth`
// bytes per second of traffic (reads plus writes, of all cores together).
[[nodiscard]] double MemoryBoundSeconds(int64_t bytes, int ranks,
                                        double memory_bandwidth);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_BENCH_FIGURES_H_
