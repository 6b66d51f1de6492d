#include "worker/collective/probe.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/reduction/reduction_kernels.h"
#include "common/status/status_macros.h"
#include "common/transport/shared_segment.h"
#include "common/transport/tcp.h"
#include "worker/collective/connect_mesh.h"
#include "common/machine/usable_cores.h"

namespace ringmaster {
namespace {

constexpr int64_t kLargeCount = 1 << 20;  // 4 MiB of float32
constexpr int64_t kSmallCount = 16;
// Few enough that a burst often passes before the kernel gives the cores to
// others.
constexpr int kSmallPerBurst = 8;
// One more, which does not count, comes before them: pages and sockets are new.
// The least number of bursts, however late it is, so that one disturbance does
// not spoil all.
constexpr int kMinBursts = 2;
constexpr int kMaxBursts = 16;
constexpr double kLargeBytes = kLargeCount * sizeof(float);
// A rank moves and adds up to this fast, however quick a burst was.
constexpr double kLeastSecondsPerByte = 1e-12;
// The transport that jobs use most comes last, when everything is warm.
constexpr std::array<Transport, 3> kTransports = {
    Transport::kTcp, Transport::kUnix, Transport::kSharedMemory};

// A rank's buffer, in memory that the other can read in place if there is such.
class ProbeBuffer {
 public:
  [[nodiscard]] static absl::StatusOr<ProbeBuffer> Create() {
    ProbeBuffer buffer;
    absl::StatusOr<SharedSegment> segment = SharedSegment::Create(
        "ringmaster probe", static_cast<size_t>(kLargeBytes));
    if (segment.ok()) {
      buffer.segment_ = std::make_unique<SharedSegment>(*std::move(segment));
    } else {
      buffer.heap_.reset(new (std::nothrow) float[kLargeCount]());
      if (buffer.heap_ == nullptr)
        return absl::ResourceExhaustedError("no memory for a buffer");
    }
    return buffer;
  }

  [[nodiscard]] const SharedSegment* arena() const { return segment_.get(); }
  [[nodiscard]] std::span<float> elements(int64_t count) const {
    float* const at = segment_ != nullptr
                          ? reinterpret_cast<float*>(segment_->at())
                          : heap_.get();
    return {at, static_cast<size_t>(count)};
  }

 private:
  std::unique_ptr<SharedSegment> segment_;
  std::unique_ptr<float[]> heap_;
};

// The world of two, over one transport.
class Pair {
 public:
  Pair(Clock& clock, MonotonicTime burst_limit, MonotonicTime hard_limit,
       const std::array<ProbeBuffer, 2>& buffers)
      : clock_(clock),
        burst_limit_(burst_limit),
        hard_limit_(hard_limit),
        buffers_(buffers) {}

  // The times of the quickest bursts, in seconds; infinite where none was made.
  double small = std::numeric_limits<double>::infinity();  // one all-reduce
  double large = std::numeric_limits<double>::infinity();

  [[nodiscard]] absl::Status Measure(Transport transport);

 private:
  [[nodiscard]] absl::Status RunRank(int rank, Transport transport,
                                     const std::array<Listener, 2>& listeners);
  // The same; a thread must not throw.
  [[nodiscard]] absl::Status TryRank(int rank, Transport transport,
                                     const std::array<Listener, 2>& listeners) {
    try {
      return RunRank(rank, transport, listeners);
    } catch (const std::exception& error) {  // no memory or thread to be had
      return absl::ResourceExhaustedError(error.what());
    }
  }
  // Bursts of `count` all-reduces until rank 0 says that it is enough.
  [[nodiscard]] absl::Status Bursts(Communicator& communicator,
                                    const CollectiveRequest& request, int count,
                                    double& best);

  Clock& clock_;
  const MonotonicTime burst_limit_;
  const MonotonicTime hard_limit_;
  const std::array<ProbeBuffer, 2>& buffers_;
};

absl::Status Pair::Measure(Transport transport) {
  ASSIGN_OR_RETURN(Listener first, Listener::Listen("127.0.0.1:0"));
  ASSIGN_OR_RETURN(Listener second, Listener::Listen("127.0.0.1:0"));
  const std::array<Listener, 2> listeners = {std::move(first),
                                             std::move(second)};
  absl::Status other_status;
  std::thread other([&] { other_status = TryRank(1, transport, listeners); });
  const absl::Status status = TryRank(0, transport, listeners);
  other.join();
  return status.ok() ? other_status : status;
}

absl::Status Pair::RunRank(int rank, Transport transport,
                           const std::array<Listener, 2>& listeners) {
  const auto self = static_cast<size_t>(rank);
  MeshConfig mesh;
  mesh.job_id = "probe";
  mesh.generation = 1;
  mesh.rank = rank;
  mesh.topology = Topology::OneHost(2);
  for (const int peer : {0, 1}) {
    mesh.peers.push_back(
        {peer, listeners[static_cast<size_t>(peer)].address().ToString()});
  }
  mesh.secret = "both ends are threads of one process";
  mesh.deadline = hard_limit_;
  mesh.best_transport = transport;
  mesh.arena = buffers_[self].arena();
  mesh.clock = &clock_;
  std::string fallback;
  mesh.on_fallback = [&](int, const std::string& why) { fallback = why; };
  ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                   ConnectMesh(listeners[self], mesh, nullptr));
  if (communicator->TransportTo(1 - rank) != transport) {
    return absl::UnavailableError(fallback.empty() ? "not to be had here"
                                                   : fallback);
  }
  CollectiveRequest request =
      AllReduceSum(BufferView::Of(buffers_[self].elements(kSmallCount)));
  request.algorithm = Algorithm::kExchange;
  RETURN_IF_ERROR(Bursts(*communicator, request, kSmallPerBurst, small));
  request = AllReduceSum(BufferView::Of(buffers_[self].elements(kLargeCount)));
  request.algorithm = Algorithm::kDirect;
  return Bursts(*communicator, request, /*count=*/1, large);
}

absl::Status Pair::Bursts(Communicator& communicator,
                          const CollectiveRequest& request, int count,
                          double& best) {
  // A quarter of the time is for the small ones.
  const MonotonicTime begin = clock_.Now();
  const MonotonicTime end =
      count > 1 ? begin + (burst_limit_ - begin) / 4 : burst_limit_;
  int64_t goes_on = 1;
  for (int burst = 0; goes_on != 0; ++burst) {  // the first warms up
    const MonotonicTime start = clock_.Now();
    for (int i = 0; i < count; ++i)
      RETURN_IF_ERROR(communicator.Run(request, hard_limit_));
    const MonotonicTime now = clock_.Now();
    if (communicator.rank() == 0) {
      if (burst > 0)
        best = std::min(best, absl::ToDoubleSeconds(now - start) / count);
      goes_on = burst < kMinBursts || (burst < kMaxBursts && now < end) ? 1 : 0;
    }
    RETURN_IF_ERROR(communicator.Run(
        Broadcast(BufferView::Of(std::span<int64_t>(&goes_on, 1)), 0),
        hard_limit_));
  }
  return absl::OkStatus();
}

// Measures adding a buffer to another, in seconds per byte.
double MeasureReduction(Clock& clock, const ProbeBuffer& buffer) {
  const absl::StatusOr<ReductionKernels> kernels =
      KernelsFor(DType::kFloat32, DType::kFloat32, Reduction::kSum);
  constexpr int64_t kCount = kLargeCount / 2;
  auto* const sum =
      reinterpret_cast<std::byte*>(buffer.elements(kLargeCount).data());
  const std::byte* const other = sum + kCount * sizeof(float);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kMaxBursts; ++i) {
    const MonotonicTime start = clock.Now();
    kernels->combine(sum, other, kCount);
    best = std::min(best, absl::ToDoubleSeconds(clock.Now() - start));
  }
  return std::max(best / (kCount * sizeof(float)), kLeastSecondsPerByte);
}

// Returns the cost with which the model predicts what was measured for two
// ranks: for an exchange the latency; for a direct all-reduce of B bytes 2
// latencies, and B moved and B/2 added by each rank.
PathCost CostOf(const Pair& pair, const MachineCosts& costs) {
  const double turns = costs.cores < 2 ? 2 : 1;
  const double per_byte =
      (pair.large - 2 * pair.small) / (turns * kLargeBytes) -
      costs.reduce_seconds_per_byte / 2;
  return {pair.small, std::max(per_byte, kLeastSecondsPerByte)};
}

PathCost& PathOf(Transport transport, MachineCosts& costs) {
  return transport == Transport::kSharedMemory ? costs.shared_memory
         : transport == Transport::kUnix       ? costs.unix_socket
                                               : costs.tcp;
}

// Returns the speed in Mbit/s, as the kernel reports it; nothing if it does not
// know.
std::optional<double> LinkSpeed(const ProbeOptions& options) {
  if (options.network_interface.empty()) return std::nullopt;
  std::ifstream file(absl::StrCat(options.network_directory, "/",
                                  options.network_interface, "/speed"));
  double speed = 0;
  if (!(file >> speed) || !(speed > 0)) return std::nullopt;
  return speed;
}

absl::Status MeasurePaths(const ProbeOptions& options, ProbeResult& result) {
  const MonotonicTime begin = options.clock->Now();
  std::array<ProbeBuffer, 2> buffers;
  for (ProbeBuffer& buffer : buffers) {
    ASSIGN_OR_RETURN(buffer, ProbeBuffer::Create());
  }
  result.costs.reduce_seconds_per_byte =
      MeasureReduction(*options.clock, buffers[0]);
  for (size_t i = 0; i < kTransports.size(); ++i) {
    const absl::Duration share =
        options.time_limit * static_cast<double>(i + 1) / kTransports.size();
    // The first waits for new threads, which a busy machine runs late: it may
    // take half of three times the limit, the last all that is left.
    const absl::Duration most = 3 * options.time_limit *
                                static_cast<double>(i + 2) /
                                (kTransports.size() + 1);
    Pair pair(*options.clock, begin + share, begin + most, buffers);
    const absl::Status status = pair.Measure(kTransports[i]);
    const PathCost cost = CostOf(pair, result.costs);
    if (cost.latency <= 1 && cost.seconds_per_byte <= 1) {
      PathOf(kTransports[i], result.costs) = cost;
      result.has_path = true;
    } else {
      result.remarks.push_back(
          absl::StrCat(TransportName(kTransports[i]), ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

ProbeResult MeasureCosts(const ProbeOptions& options) {
  const MonotonicTime begin = options.clock->Now();
  ProbeResult result;
  result.costs.cores = UsableCores();
  absl::Status status;
  try {
    status = MeasurePaths(options, result);
  } catch (const std::exception& error) {  // as in TryRank
    status = absl::ResourceExhaustedError(error.what());
  }
  if (!status.ok()) result.remarks.emplace_back(status.message());
  if (const std::optional<double> speed = LinkSpeed(options)) {
    result.costs.remote.seconds_per_byte = 8 / (*speed * 1e6);
  }
  result.duration = options.clock->Now() - begin;
  return result;
}

}  // namespace ringmaster
