// The options of an all-reduce benchmark, and its results. Plain values; their
// enumerations, with ParseDType, TransportName and so on, come with this
// header.
#ifndef RINGMASTER_WORKER_BENCH_ALL_REDUCE_OPTIONS_H_
#define RINGMASTER_WORKER_BENCH_ALL_REDUCE_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/plan/topology.h"
#include "common/tensor/dtype.h"
#include "common/transport/channel.h"
#include "worker/collective/algorithm.h"
#include "common/reduction/reduction.h"

namespace ringmaster {

// With more ranks, sums would not be exact in bfloat16.
inline constexpr int kMaxAllReduceBenchRanks = 128;

struct AllReduceBenchOptions {
  int ranks = 2;  // to kMaxAllReduceBenchRanks
  // The best transport that is tried; none: the best that there is.
  std::optional<Transport> transport = std::nullopt;
  // If true, a slower one than `transport` is an error.
  bool is_transport_required = false;
  int connections = 1;  // to each rank of another host
  Algorithm algorithm = Algorithm::kAuto;
  DType dtype = DType::kFloat32;
  std::optional<DType> wire = std::nullopt;
  Reduction reduction = Reduction::kSum;
  std::vector<int64_t> sizes = {};  // in bytes, each at least one element
  int warmup = 5;
  int iterations = 20;
  // The longest time that warming up and measuring a size each take; at least
  // three iterations are measured.
  absl::Duration time_per_size = absl::Seconds(2);
  // The bytes that each rank copies to measure the memory; less for many ranks.
  // The default is well beyond the caches.
  int64_t copy_bytes = int64_t{64} << 20;
};

// INVALID_ARGUMENT names the flag of the command line that has to change.
[[nodiscard]] absl::Status CheckAllReduceBench(
    const AllReduceBenchOptions& options);
// The same for the ranks of `topology` instead of those of one machine.
[[nodiscard]] absl::Status CheckAllReduceBench(
    const AllReduceBenchOptions& options, const Topology& topology);

// The figures that hold for all sizes.
struct AllReduceBenchStart {
  Transport transport = Transport::kTcp;  // the worst between two ranks
  // The bus bandwidth that large buffers cannot exceed, in bytes per second:
  // MemoryBusLimit of one host, LinkBusLimit of several.
  double bus_limit = 0;
  // The reason why ranks of a host share no memory; empty if they do, or should
  // not.
  std::string fallback;
};

struct AllReduceBenchRow {
  int64_t bytes = 0;  // whole elements
  int64_t count = 0;
  int iterations = 0;
  // Percentiles of the slowest rank's time in each iteration, in seconds.
  double p50 = 0;
  double p99 = 0;
  // Elements that differed from the result, of all ranks, in all iterations and
  // while warming up.
  int64_t wrong = 0;
  Algorithm algorithm = Algorithm::kAuto;  // the one that ran
  double predicted = 0;  // seconds, by the cost model; 0: not known
};

// All figures, as far as there are any.
struct AllReduceBenchFigures {
  AllReduceBenchStart start;
  std::vector<AllReduceBenchRow> rows;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_BENCH_ALL_REDUCE_OPTIONS_H_
