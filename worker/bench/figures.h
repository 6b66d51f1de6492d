// The figures of a benchmark of collectives: its sizes, percentiles of times,
// and the bandwidths that follow from times. Pure.
//
// Bandwidths are those of nccl-tests (doc/PERFORMANCE.md there): `algbw` is
// bytes of the buffer over time; `busbw` is algbw * 2 * (n - 1) / n, the rate
// at which each rank sends and receives if nothing is sent in vain, so that
// figures of different numbers of ranks can be compared.
#ifndef RINGMASTER_WORKER_BENCH_FIGURES_H_
#define RINGMASTER_WORKER_BENCH_FIGURES_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ringmaster {

// Parses a size in bytes: "4096", "4K", "256M", "1G". Units and bounds as in
// ParseSizes.
[[nodiscard]] absl::StatusOr<int64_t> ParseSize(std::string_view text);

// Returns the sizes in bytes of "4K:256M": the first, then each `step` (at
// least 2) times the one before, up to the last. "1M" is one size. K, M and G
// are powers of 1024. A size is from 8 bytes to 64G. INVALID_ARGUMENT names the
// text and its mistake.
[[nodiscard]] absl::StatusOr<std::vector<int64_t>> ParseSizes(
    std::string_view text, int step);

// Returns the smallest value that at least `share` (0 to 1) of the values do
// not exceed: the nearest rank. Requires at least one value, in ascending
// order.
[[nodiscard]] double Percentile(std::span<const double> ascending,
                                double share);

// Bytes per second.
[[nodiscard]] double AlgorithmBandwidth(int64_t bytes, double seconds);
[[nodiscard]] double BusBandwidth(int64_t bytes, double seconds, int ranks);

// The bus bandwidth that an all-reduce between `ranks` processes of one machine
// cannot exceed once the buffers are in main memory: each of them must be read
// and written once, 2 * ranks * bytes, at `memory_bandwidth` bytes per second
// of traffic (reads plus writes, of all cores together).
[[nodiscard]] double MemoryBusLimit(int ranks, double memory_bandwidth);

// The bus bandwidth that an all-reduce between `ranks` on `hosts` cannot
// exceed: every host must send and receive 2 * (hosts - 1) / hosts * bytes, at
// `link_bandwidth` bytes per second each way.
[[nodiscard]] double LinkBusLimit(int ranks, int hosts, double link_bandwidth);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_BENCH_FIGURES_H_
