#include "worker/bench/memory_needs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/transport/shared_layout.h"
#include "worker/bench/all_reduce_rank.h"
#include "worker/collective/communicator.h"
#include "worker/collective/schedule.h"

namespace ringmaster {
namespace {

int64_t ScratchBytes(int rank, int64_t bytes,
                     const AllReduceBenchOptions& options,
                     const Topology& topology, const AlgorithmPolicy& policy) {
  CollectiveRequest request;
  request.op = CollectiveOp::kAllReduce;
  request.buffer.count = bytes / SizeOf(options.dtype);
  request.buffer.dtype = options.dtype;
  request.wire = options.wire;
  request.algorithm = options.algorithm;
  ScheduleRequest wanted;
  wanted.op = request.op;
  wanted.algorithm = ChooseAlgorithm(request, topology, policy);
  wanted.rank = rank;
  wanted.count = request.buffer.count;
  // Scratch is for the whole buffer, whatever a frame holds.
  wanted.segment_count = std::max<int64_t>(request.buffer.count, 1);
  return BuildSchedule(wanted, topology).scratch_count * SizeOf(options.dtype);
}

}  // namespace

int64_t BenchBytesOf(int rank, const AllReduceBenchOptions& options,
                     const Topology& topology, const AlgorithmPolicy& policy) {
  int64_t scratch = 0;  // kept for the largest
  for (const int64_t bytes : options.sizes) {
    scratch =
        std::max(scratch, ScratchBytes(rank, bytes, options, topology, policy));
  }
  const int64_t buffer =
      *std::max_element(options.sizes.begin(), options.sizes.end());
  const auto neighbours =
      static_cast<int64_t>(topology.RanksOf(topology.HostOf(rank)).size() - 1);
  const int64_t shared =
      neighbours * static_cast<int64_t>(SegmentBytes(SharedSlots{}));
  return std::max(2 * CopyBytesOf(options), buffer + scratch) + shared;
}

absl::Status CheckBenchMemory(int rank, const AllReduceBenchOptions& options,
                              const Topology& topology,
                              const AlgorithmPolicy& policy,
                              int64_t available_bytes) {
  // With a root that adds for all, one rank needs more than the others.
  double total = 0;
  const std::vector<int>& ranks = topology.RanksOf(topology.HostOf(rank));
  for (const int other : ranks) {
    total +=
        static_cast<double>(BenchBytesOf(other, options, topology, policy));
  }
  if (available_bytes < 0 || total <= static_cast<double>(available_bytes))
    return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the ranks on this host (%d) need %.2f GB for buffers of %d bytes and "
      "what the algorithm keeps beside them, and %.2f GB are available; choose "
      "smaller --sizes, fewer --ranks or another --algorithm",
      ranks.size(), total / 1e9,
      *std::max_element(options.sizes.begin(), options.sizes.end()),
      static_cast<double>(available_bytes) / 1e9));
}

}  // namespace ringmaster
