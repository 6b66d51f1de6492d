// One rank of an all-reduce benchmark: the same code between the processes of
// `ringctl bench` and between the workers of a job.
//
// In every iteration each rank refills its buffer, meets the others, reduces
// (the timed part), and compares every element with the result. All ranks
// have the same figures in the end: times of the slowest, wrong elements of
// all.
#ifndef RINGMASTER_WORKER_BENCH_ALL_REDUCE_RANK_H_
#define RINGMASTER_WORKER_BENCH_ALL_REDUCE_RANK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/plan/topology.h"
#include "common/transport/cancel_token.h"
#include "worker/bench/all_reduce_options.h"
#include "worker/collective/communicator.h"
#include "worker/collective/cost_model.h"

namespace ringmaster {

// A rank's wish; the ranks act together on the largest one.
enum class BenchWish : int { kGoOn = 0, kDrain = 1, kStop = 2 };

// References must outlive the call.
struct AllReduceRankContext {
  Communicator& communicator;
  // Room for the largest size.
  std::byte* elements;
  const Topology& topology;
  // The communicator's policy, for the predictions.
  const AlgorithmPolicy& policy;
  Clock& clock;
  // Ends work that no peer takes part in: filling, comparing. The
  // communicator's collectives end by its Abort.
  const CancelToken& cancel;
  // A time longer than any collective takes.
  absl::Duration patience = absl::Seconds(120);
  // Called before each iteration.
  std::function<BenchWish()> wish = [] { return BenchWish::kGoOn; };
  // The reason why a peer of this host shares no memory; empty if all do.
  std::string fallback = {};
  // Called once, before the first size.
  std::function<absl::Status(const AllReduceBenchStart&)> on_start;
  // Called for each size, in order.
  std::function<absl::Status(const AllReduceBenchRow&)> on_row;
};

struct AllReduceRankEnd {
  // kGoOn: all sizes were measured.
  BenchWish wish = BenchWish::kGoOn;
  // Elements that were wrong on this rank, in all iterations of all sizes.
  int64_t own_wrong = 0;
};

// Returns the bytes that a rank copies, or that all ranks gather, to measure
// the limit; a copy needs twice that memory.
[[nodiscard]] int64_t CopyBytesOf(const AllReduceBenchOptions& options);

// Measures all sizes. `options` passed CheckAllReduceBench and are the same on
// all ranks, whose number is the communicator's.
//   UNAVAILABLE          a peer is gone, or the required transport is
//                        not to be had: which, and why
//   RESOURCE_EXHAUSTED   there is not enough memory to measure the limit with
//   other                as of Communicator, of `cancel`, and of the reports
[[nodiscard]] absl::StatusOr<AllReduceRankEnd> MeasureAllReduce(
    const AllReduceBenchOptions& options, const AllReduceRankContext& context);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_BENCH_ALL_REDUCE_RANK_H_
