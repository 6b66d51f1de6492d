#include "worker/bench/all_reduce_rank.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/status/status_macros.h"
#include "common/tensor/allocator.h"
#include "worker/bench/figures.h"
#include "worker/bench/test_pattern.h"

namespace ringmaster {
namespace {

// The most bytes that all ranks together copy at once.
constexpr int64_t kCopyBytesOfAll = int64_t{1} << 30;
constexpr int kCopies = 10;
// The rounds that measure the limit of links; slow ones end after kGatherTime.
constexpr int kGathers = 5;
constexpr absl::Duration kGatherTime = absl::Seconds(2);

constexpr int kMinIterations = 3;

// The bytes between two checks for a cancellation.
constexpr int64_t kPieceBytes = int64_t{16} << 20;

// The values that the ranks exchange when they meet; the largest of each
// counts.
enum Meeting { kWish, kElapsedSeconds, kMeetingSize };

class RankBench {
 public:
  RankBench(const AllReduceBenchOptions& options,
            const AllReduceRankContext& context)
      : options_(options),
        context_(context),
        communicator_(context.communicator),
        ranks_(communicator_.world_size()),
        element_bytes_(SizeOf(options.dtype)),
        pattern_(options.dtype, options.reduction, ranks_,
                 communicator_.rank()) {}

  // Returns the transport that all ranks have, or the reason why it is not the
  // required one.
  absl::StatusOr<Transport> AgreeOnTransport();
  absl::StatusOr<double> MeasureLimit() {
    return context_.topology.host_count() > 1 ? MeasureLinks()
                                              : MeasureMemory();
  }
  absl::Status AwaitAll() { return communicator_.Run(Barrier(), Soon()); }
  // Returns false if the ranks agreed to end instead; see wish().
  absl::StatusOr<bool> Measure(int64_t bytes, AllReduceBenchRow& row);

  [[nodiscard]] BenchWish wish() const { return wish_; }
  [[nodiscard]] int64_t own_wrong() const { return own_wrong_; }

 private:
  MonotonicTime Now() const { return context_.clock.Now(); }
  MonotonicTime Soon() const { return Now() + context_.patience; }

  absl::StatusOr<double> MeasureMemory();
  absl::StatusOr<double> MeasureLinks();
  // The largest of the ranks' values, for each of them.
  absl::Status TakeMaxima(double* values, size_t count);
  absl::StatusOr<double> MaxOf(double own);
  // Returns once all ranks have arrived; wish_ is then the largest wish.
  // Returns the longest time since `start` of any rank.
  absl::StatusOr<absl::Duration> Meet(MonotonicTime start);
  CollectiveRequest RequestFor(int64_t count) const;
  // `act` on the buffer's elements, piece by piece: pointer, count, and the
  // place of the first in this call's pattern.
  template <typename Act>
  absl::Status InPieces(int64_t count, const Act& act);
  // A number of iterations, or fewer where they take longer than they may;
  // their seconds on this rank, unless `seconds` is null. False as of Measure.
  absl::StatusOr<bool> Iterate(const CollectiveRequest& request, int most,
                               int least, std::vector<double>* seconds);
  absl::StatusOr<double> Reduce(const CollectiveRequest& request);
  // The sum of all ranks' `own`; without using an addition of the collectives
  // under test.
  absl::StatusOr<int64_t> CountOfAll(int64_t own);

  const AllReduceBenchOptions& options_;
  const AllReduceRankContext& context_;
  Communicator& communicator_;
  const int ranks_;
  const int64_t element_bytes_;
  const TestPattern pattern_;
  HeapAllocator allocator_;
  BenchWish wish_ = BenchWish::kGoOn;
  int64_t calls_ = 0;
  int64_t wrong_ = 0;  // of the present size
  int64_t own_wrong_ = 0;
};

absl::StatusOr<Transport> RankBench::AgreeOnTransport() {
  // Ascending from the worst to the best.
  Transport own = Transport::kSharedMemory;
  for (int peer = 0; peer < ranks_; ++peer) {
    const Transport transport = communicator_.TransportTo(peer);
    if (transport != Transport::kLoopback) own = std::min(own, transport);
  }
  if (options_.is_transport_required && options_.transport.has_value() &&
      own != *options_.transport) {
    return absl::UnavailableError(
        absl::StrCat("--transport=", TransportName(*options_.transport),
                     " is not to be had here, only ", TransportName(own),
                     context_.fallback.empty() ? "" : "; ", context_.fallback));
  }
  ASSIGN_OR_RETURN(const double worst, MaxOf(-static_cast<double>(own)));
  return static_cast<Transport>(static_cast<int>(-worst));
}

absl::StatusOr<double> RankBench::MeasureMemory() {
  const int64_t bytes = CopyBytesOf(options_);
  ASSIGN_OR_RETURN(const Allocation from, allocator_.Allocate(bytes));
  ASSIGN_OR_RETURN(const Allocation to, allocator_.Allocate(bytes));
  auto* const source = static_cast<volatile char*>(from.data());
  const auto* const target = static_cast<volatile char*>(to.data());
  // Pages that nobody wrote to are one and the same page of zeros.
  std::memset(from.data(), 1, static_cast<size_t>(bytes));
  double best = 0;
  for (int copy = 0; copy <= kCopies; ++copy) {
    RETURN_IF_ERROR(Meet(Now()).status());
    const MonotonicTime start = Now();
    std::memcpy(to.data(), from.data(), static_cast<size_t>(bytes));
    const absl::Duration took = Now() - start;
    source[0] = target[bytes - 1];  // so that no copy is left out
    ASSIGN_OR_RETURN(const double slowest, MaxOf(absl::ToDoubleSeconds(took)));
    if (copy == 0) continue;  // gets the pages
    best = std::max(best, 2.0 * static_cast<double>(bytes) * ranks_ / slowest);
  }
  return MemoryBusLimit(ranks_, best);
}

// In a ring all-gather every rank sends to the next and receives from the one
// before at the same time, and adds nothing: the slowest link decides.
absl::StatusOr<double> RankBench::MeasureLinks() {
  const int64_t bytes = CopyBytesOf(options_);
  ASSIGN_OR_RETURN(const Allocation memory, allocator_.Allocate(bytes));
  std::memset(memory.data(), 1, static_cast<size_t>(bytes));  // as above
  CollectiveRequest request = AllGather(
      {memory.data(), bytes / SizeOf(DType::kFloat32), DType::kFloat32});
  request.algorithm = Algorithm::kRing;
  const double sent = static_cast<double>(bytes) * (ranks_ - 1) / ranks_;
  double best = 0;
  const MonotonicTime begin = Now();
  for (int gather = 0; gather <= kGathers; ++gather) {
    ASSIGN_OR_RETURN(const absl::Duration elapsed, Meet(begin));
    if (gather > 1 && elapsed > kGatherTime) break;
    const MonotonicTime start = Now();
    RETURN_IF_ERROR(communicator_.Run(request, Soon()));
    const absl::Duration took = Now() - start;
    ASSIGN_OR_RETURN(const double slowest, MaxOf(absl::ToDoubleSeconds(took)));
    if (gather == 0) continue;  // gets the pages, and opens windows
    best = std::max(best, sent / slowest);
  }
  return LinkBusLimit(ranks_, context_.topology.host_count(), best);
}

absl::Status RankBench::TakeMaxima(double* values, size_t count) {
  CollectiveRequest request;
  request.op = CollectiveOp::kAllReduce;
  request.buffer = {values, static_cast<int64_t>(count), DType::kFloat64};
  request.reduction = Reduction::kMax;
  return communicator_.Run(request, Soon());
}

absl::StatusOr<double> RankBench::MaxOf(double own) {
  RETURN_IF_ERROR(TakeMaxima(&own, 1));
  return own;
}

absl::StatusOr<absl::Duration> RankBench::Meet(MonotonicTime start) {
  std::array<double, kMeetingSize> meeting;
  meeting[kWish] = static_cast<double>(context_.wish());
  meeting[kElapsedSeconds] = absl::ToDoubleSeconds(Now() - start);
  RETURN_IF_ERROR(TakeMaxima(meeting.data(), meeting.size()));
  wish_ = static_cast<BenchWish>(static_cast<int>(meeting[kWish]));
  return absl::Seconds(meeting[kElapsedSeconds]);
}

absl::StatusOr<int64_t> RankBench::CountOfAll(int64_t own) {
  std::vector<int64_t> counts(static_cast<size_t>(ranks_));
  counts[static_cast<size_t>(communicator_.rank())] = own;
  RETURN_IF_ERROR(
      communicator_.Run(AllGather(BufferView::Of(std::span(counts))), Soon()));
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

CollectiveRequest RankBench::RequestFor(int64_t count) const {
  CollectiveRequest request;
  request.op = CollectiveOp::kAllReduce;
  request.buffer = {context_.elements, count, options_.dtype};
  request.reduction = options_.reduction;
  request.wire = options_.wire;
  request.algorithm = options_.algorithm;
  return request;
}

template <typename Act>
absl::Status RankBench::InPieces(int64_t count, const Act& act) {
  std::byte* const elements = context_.elements;
  const int64_t piece = kPieceBytes / element_bytes_;
  for (int64_t done = 0; done < count; done += piece) {
    RETURN_IF_ERROR(context_.cancel.status());
    act(elements + done * element_bytes_, std::min(piece, count - done),
        calls_ + done);
  }
  return absl::OkStatus();
}

absl::StatusOr<double> RankBench::Reduce(const CollectiveRequest& request) {
  const MonotonicTime start = Now();
  RETURN_IF_ERROR(communicator_.Run(request, start + context_.patience));
  const absl::Duration took = Now() - start;
  // For tests of what a wrong result leads to.
  if (!FAIL_POINT("bench.reduced").ok()) *context_.elements ^= std::byte{0x55};
  RETURN_IF_ERROR(
      InPieces(request.buffer.count,
               [this](const std::byte* elements, int64_t count, int64_t first) {
                 wrong_ += pattern_.CountWrong(elements, count, first);
               }));
  ++calls_;
  return absl::ToDoubleSeconds(took);
}

absl::StatusOr<bool> RankBench::Iterate(const CollectiveRequest& request,
                                        int most, int least,
                                        std::vector<double>* seconds) {
  const MonotonicTime start = Now();
  for (int iteration = 0; iteration < most; ++iteration) {
    RETURN_IF_ERROR(
        InPieces(request.buffer.count,
                 [this](std::byte* elements, int64_t count, int64_t first) {
                   pattern_.Fill(elements, count, first);
                 }));
    ASSIGN_OR_RETURN(const absl::Duration elapsed, Meet(start));
    if (wish_ != BenchWish::kGoOn) return false;
    // All ranks end after the same one.
    if (iteration >= least && elapsed > options_.time_per_size) break;
    ASSIGN_OR_RETURN(const double took, Reduce(request));
    if (seconds != nullptr) seconds->push_back(took);
  }
  return true;
}

absl::StatusOr<bool> RankBench::Measure(int64_t bytes, AllReduceBenchRow& row) {
  row.count = bytes / element_bytes_;
  row.bytes = row.count * element_bytes_;
  const CollectiveRequest request = RequestFor(row.count);
  row.algorithm = communicator_.AlgorithmFor(request);
  row.predicted =
      PredictAllReduce(row.algorithm, row.count * SizeOf(WireOf(request)),
                       context_.topology, context_.policy.costs);
  wrong_ = 0;
  ASSIGN_OR_RETURN(const bool is_warm,
                   Iterate(request, options_.warmup, 1, /*seconds=*/nullptr));
  if (!is_warm) return false;
  std::vector<double> seconds;
  ASSIGN_OR_RETURN(const bool is_measured, Iterate(request, options_.iterations,
                                                   kMinIterations, &seconds));
  if (!is_measured) return false;
  RETURN_IF_ERROR(TakeMaxima(seconds.data(), seconds.size()));
  std::sort(seconds.begin(), seconds.end());
  row.iterations = static_cast<int>(seconds.size());
  row.p50 = Percentile(seconds, 0.5);
  row.p99 = Percentile(seconds, 0.99);
  own_wrong_ += wrong_;
  ASSIGN_OR_RETURN(row.wrong, CountOfAll(wrong_));
  return true;
}

}  // namespace

int64_t CopyBytesOf(const AllReduceBenchOptions& options) {
  return std::min(options.copy_bytes, kCopyBytesOfAll / options.ranks);
}

absl::StatusOr<AllReduceRankEnd> MeasureAllReduce(
    const AllReduceBenchOptions& options, const AllReduceRankContext& context) {
  RankBench bench(options, context);
  AllReduceBenchStart start;
  start.fallback = context.fallback;
  ASSIGN_OR_RETURN(start.transport, bench.AgreeOnTransport());
  ASSIGN_OR_RETURN(start.bus_limit, bench.MeasureLimit());
  RETURN_IF_ERROR(context.on_start(start));
  for (const int64_t bytes : options.sizes) {
    AllReduceBenchRow row;
    ASSIGN_OR_RETURN(const bool is_measured, bench.Measure(bytes, row));
    if (!is_measured) return AllReduceRankEnd{bench.wish(), bench.own_wrong()};
    RETURN_IF_ERROR(context.on_row(row));
  }
  // No rank ends, and perhaps fails, before all have reported the last size.
  RETURN_IF_ERROR(bench.AwaitAll());
  return AllReduceRankEnd{BenchWish::kGoOn, bench.own_wrong()};
}

}  // namespace ringmaster
