#include "worker/bench/all_reduce_rank.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock/clock.h"
#include "common/plan/topology.h"
#include "common/status/status_macros.h"
#include "common/tensor/allocator.h"
#include "worker/bench/figures.h"
#include "worker/bench/test_pattern.h"
#include "worker/collective/communicator.h"
#include "worker/collective/connect_mesh.h"

namespace ringmaster {
namespace {

// Longer than any collective takes; Ctrl-C ends one sooner.
constexpr absl::Duration kPatience = absl::Seconds(120);

// What all ranks together copy at once, at most.
constexpr int64_t kCopyBytesOfAll = int64_t{1} << 30;
constexpr int kCopies = 10;

MonotonicTime Now() { return Clock::Real().Now(); }
MonotonicTime Soon() { return Now() + kPatience; }

class RankBench {
 public:
  RankBench(const AllReduceBenchOptions& options, int rank)
      : options_(options),
        rank_(rank),
        element_bytes_(SizeOf(options.dtype)),
        pattern_(options.dtype, options.reduction, options.ranks, rank) {}

  absl::Status Connect(const std::vector<Listener>& listeners);
  // The transport that all ranks have, or why it is not the one asked for.
  absl::StatusOr<Transport> AgreeOnTransport();
  absl::StatusOr<double> MeasureMemory();
  absl::Status Prepare();
  absl::StatusOr<AllReduceBenchRow> Measure(int64_t bytes);

 private:
  // The largest of the ranks' values, for each of them.
  absl::Status TakeMaxima(std::vector<double>& values);
  absl::StatusOr<double> MaxOf(double own);
  absl::Status Barrier() {
    return communicator_->Run(ringmaster::Barrier(), Soon());
  }
  CollectiveRequest RequestFor(int64_t count) const;
  // One all-reduce of new inputs: its seconds on this rank. Adds to wrong_.
  absl::StatusOr<double> RunOnce(const CollectiveRequest& request);
  // Returns how long an iteration takes with everything around it.
  absl::StatusOr<absl::Duration> WarmUp(const CollectiveRequest& request);

  const AllReduceBenchOptions& options_;
  const int rank_;
  const int64_t element_bytes_;
  const TestPattern pattern_;
  HeapAllocator allocator_;
  Allocation elements_;
  std::string fallback_;  // why a peer shares no memory
  std::unique_ptr<Communicator> communicator_;
  int64_t wrong_ = 0;
};

absl::Status RankBench::Connect(const std::vector<Listener>& listeners) {
  MeshConfig config;
  config.job_id = "bench";
  config.generation = 1;
  config.rank = rank_;
  config.topology = Topology::OneHost(options_.ranks);
  for (size_t peer = 0; peer < listeners.size(); ++peer) {
    config.peers.push_back(
        {static_cast<int>(peer), listeners[peer].address().ToString()});
  }
  config.secret = "a benchmark has no secrets";
  config.deadline = Now() + absl::Seconds(60);
  config.best_transport = options_.transport.value_or(Transport::kSharedMemory);
  config.policy.algorithm = options_.algorithm;
  config.clock = &Clock::Real();
  config.on_fallback = [this](int peer, const std::string& why) {
    fallback_ = absl::StrCat("with rank ", peer, ": ", why);
  };
  ASSIGN_OR_RETURN(communicator_,
                   ConnectMesh(listeners[static_cast<size_t>(rank_)], config,
                               /*cancel=*/nullptr));
  return absl::OkStatus();
}

absl::StatusOr<Transport> RankBench::AgreeOnTransport() {
  // Ascending from the worst to the best.
  Transport own = Transport::kSharedMemory;
  for (int peer = 0; peer < options_.ranks; ++peer) {
    const Transport transport = communicator_->TransportTo(peer);
    if (transport != Transport::kLoopback) own = std::min(own, transport);
  }
  if (options_.transport.has_value() && own != *options_.transport) {
    return absl::UnavailableError(
        absl::StrCat("--transport=", TransportName(*options_.transport),
                     " is not to be had here, only ", TransportName(own),
                     fallback_.empty() ? "" : absl::StrCat("; ", fallback_)));
  }
  ASSIGN_OR_RETURN(const double worst, MaxOf(-static_cast<double>(own)));
  return static_cast<Transport>(static_cast<int>(-worst));
}

absl::StatusOr<double> RankBench::MeasureMemory() {
  const int64_t bytes =
      std::min(options_.copy_bytes, kCopyBytesOfAll / options_.ranks);
  ASSIGN_OR_RETURN(const Allocation from, allocator_.Allocate(bytes));
  ASSIGN_OR_RETURN(const Allocation to, allocator_.Allocate(bytes));
  auto* const source = static_cast<volatile char*>(from.data());
  const auto* const target = static_cast<volatile char*>(to.data());
  // Pages that nobody wrote to are one and the same page of zeros.
  std::memset(from.data(), 1, static_cast<size_t>(bytes));
  double best = 0;
  for (int copy = 0; copy <= kCopies; ++copy) {
    RETURN_IF_ERROR(Barrier());
    const MonotonicTime start = Now();
    std::memcpy(to.data(), from.data(), static_cast<size_t>(bytes));
    const absl::Duration took = Now() - start;
    source[0] = target[bytes - 1];  // so that no copy is left out
    ASSIGN_OR_RETURN(const double slowest, MaxOf(absl::ToDoubleSeconds(took)));
    if (copy == 0) continue;  // gets the pages
    best = std::max(
        best, 2.0 * static_cast<double>(bytes) * options_.ranks / slowest);
  }
  return best;
}

absl::Status RankBench::Prepare() {
  const int64_t largest =
      *std::max_element(options_.sizes.begin(), options_.sizes.end());
  ASSIGN_OR_RETURN(elements_, allocator_.Allocate(largest));
  return absl::OkStatus();
}

absl::Status RankBench::TakeMaxima(std::vector<double>& values) {
  CollectiveRequest request;
  request.op = CollectiveOp::kAllReduce;
  request.buffer = {values.data(), static_cast<int64_t>(values.size()),
                    DType::kFloat64};
  request.reduction = Reduction::kMax;
  return communicator_->Run(request, Soon());
}

absl::StatusOr<double> RankBench::MaxOf(double own) {
  std::vector<double> values = {own};
  RETURN_IF_ERROR(TakeMaxima(values));
  return values[0];
}

CollectiveRequest RankBench::RequestFor(int64_t count) const {
  CollectiveRequest request;
  request.op = CollectiveOp::kAllReduce;
  request.buffer = {elements_.data(), count, options_.dtype};
  request.reduction = options_.reduction;
  request.wire = options_.wire;
  return request;
}

absl::StatusOr<double> RankBench::RunOnce(const CollectiveRequest& request) {
  auto* const elements = static_cast<std::byte*>(request.buffer.ptr);
  pattern_.Fill(elements, request.buffer.count);
  RETURN_IF_ERROR(Barrier());
  const MonotonicTime start = Now();
  RETURN_IF_ERROR(communicator_->Run(request, start + kPatience));
  const absl::Duration took = Now() - start;
  wrong_ += pattern_.CountWrong(elements, request.buffer.count);
  return absl::ToDoubleSeconds(took);
}

absl::StatusOr<absl::Duration> RankBench::WarmUp(
    const CollectiveRequest& request) {
  const MonotonicTime start = Now();
  double elapsed = 0;
  int done = 0;
  while (done < options_.warmup) {
    RETURN_IF_ERROR(RunOnce(request).status());
    ++done;
    // All ranks must stop after the same one.
    ASSIGN_OR_RETURN(elapsed, MaxOf(absl::ToDoubleSeconds(Now() - start)));
    if (absl::Seconds(elapsed) > options_.time_per_size) break;
  }
  return absl::Seconds(elapsed) / std::max(done, 1);
}

absl::StatusOr<AllReduceBenchRow> RankBench::Measure(int64_t bytes) {
  AllReduceBenchRow row;
  row.count = bytes / element_bytes_;
  row.bytes = row.count * element_bytes_;
  const CollectiveRequest request = RequestFor(row.count);
  row.algorithm = communicator_->AlgorithmFor(request);
  wrong_ = 0;
  ASSIGN_OR_RETURN(const absl::Duration each, WarmUp(request));
  row.iterations =
      IterationsWithin(options_.time_per_size, each, options_.iterations);
  std::vector<double> seconds;
  for (int iteration = 0; iteration < row.iterations; ++iteration) {
    ASSIGN_OR_RETURN(const double took, RunOnce(request));
    seconds.push_back(took);
  }
  RETURN_IF_ERROR(TakeMaxima(seconds));
  std::sort(seconds.begin(), seconds.end());
  row.p50 = Percentile(seconds, 0.5);
  row.p99 = Percentile(seconds, 0.99);
  row.wrong = wrong_;
  return row;
}

}  // namespace

absl::Status RunAllReduceRank(const AllReduceBenchOptions& options,
                              const std::vector<Listener>& listeners, int rank,
                              const AllReduceRankReports& reports) {
  RankBench bench(options, rank);
  RETURN_IF_ERROR(bench.Connect(listeners));
  AllReduceBenchStart start;
  ASSIGN_OR_RETURN(start.transport, bench.AgreeOnTransport());
  ASSIGN_OR_RETURN(start.memory_bandwidth, bench.MeasureMemory());
  RETURN_IF_ERROR(bench.Prepare());
  RETURN_IF_ERROR(reports.on_start(start));
  for (const int64_t bytes : options.sizes) {
    ASSIGN_OR_RETURN(const AllReduceBenchRow row, bench.Measure(bytes));
    RETURN_IF_ERROR(reports.on_row(row));
  }
  return absl::OkStatus();
}

}  // namespace ringmaster
