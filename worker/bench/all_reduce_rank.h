// One rank of an all-reduce benchmark, in its own process.
#ifndef RINGMASTER_WORKER_BENCH_ALL_REDUCE_RANK_H_
#define RINGMASTER_WORKER_BENCH_ALL_REDUCE_RANK_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "common/transport/tcp.h"
#include "worker/bench/all_reduce_options.h"

namespace ringmaster {

struct AllReduceRankReports {
  // Called once, before the first row.
  std::function<absl::Status(const AllReduceBenchStart&)> on_start;
  // Called for each size, in order; `wrong` is this rank's alone, the times are
  // those of the slowest.
  std::function<absl::Status(const AllReduceBenchRow&)> on_row;
};

// Connects rank `rank` with the others, whose listeners are in `listeners` by
// rank, and measures all sizes. `options` passed CheckAllReduceBench and are the
// same on all ranks.
//   UNAVAILABLE          a peer is gone, or the transport asked for is not to be
//                        had: which, and why
//   RESOURCE_EXHAUSTED   there is not enough memory for the largest size
//   other                as of Communicator, and of the reports
[[nodiscard]] absl::Status RunAllReduceRank(
    const AllReduceBenchOptions& options,
    const std::vector<Listener>& listeners, int rank,
    const AllReduceRankReports& reports);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_BENCH_ALL_REDUCE_RANK_H_
