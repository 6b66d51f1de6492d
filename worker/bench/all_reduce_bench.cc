#include "worker/bench/all_reduce_bench.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/clock/clock.h"
#include "common/machine/memory_limits.h"
#include "common/plan/topology.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "common/transport/cancel_token.h"
#include "common/transport/tcp.h"
#include "worker/bench/all_reduce_rank.h"
#include "worker/bench/bench_buffer.h"
#include "worker/bench/local_mesh.h"
#include "worker/bench/memory_needs.h"
#include "worker/collective/cost_model.h"
#include "worker/collective/probe.h"

namespace ringmaster {
namespace {

// The message of rank 0; between forks of one program its bytes are sent as
// they are. The start's text follows them.
struct Report {
  int32_t row = -1;  // -1: it is the start
  Transport transport = Transport::kTcp;
  double bus_limit = 0;
  AllReduceBenchRow figures;
};

std::string ToMessage(const Report& report, std::string_view text = {}) {
  std::string message(reinterpret_cast<const char*>(&report), sizeof(report));
  message.append(
      text.substr(0, ForkedRanks::kMaxMessageBytes - message.size()));
  return message;
}

Report ReportFrom(std::string_view message) {
  Report report;
  RM_CHECK(message.size() >= sizeof(report), "ranks send reports");
  std::memcpy(&report, message.data(), sizeof(report));
  return report;
}

// All ranks have the same to report.
absl::Status RunRank(const AllReduceBenchOptions& options,
                     const AlgorithmPolicy& policy,
                     const std::vector<Listener>& listeners, int rank,
                     const ForkedRanks::Send& send) {
  const Topology topology = Topology::OneHost(options.ranks);
  const CancelToken cancel;  // who is to end is killed
  std::string fallback;
  const Transport best = options.transport.value_or(Transport::kSharedMemory);
  ASSIGN_OR_RETURN(
      const std::unique_ptr<BenchBuffer> buffer,
      BenchBuffer::Allocate(
          *std::max_element(options.sizes.begin(), options.sizes.end()),
          /*is_shared=*/best == Transport::kSharedMemory));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Communicator> communicator,
      ConnectLocalRank(
          listeners, rank,
          {.best_transport = best,
           .arena = buffer->arena(),
           .policy = policy,
           .on_fallback = [&fallback](int peer, const std::string& why) {
             fallback = absl::StrCat("with rank ", peer, ": ", why);
           }}));
  Report report;
  AllReduceRankContext context{.communicator = *communicator,
                               .elements = buffer->elements(),
                               .topology = topology,
                               .policy = policy,
                               .clock = Clock::Real(),
                               .cancel = cancel,
                               .fallback = fallback,
                               .on_start = {},
                               .on_row = {}};
  context.on_start = [&](const AllReduceBenchStart& start) {
    report.transport = start.transport;
    report.bus_limit = start.bus_limit;
    return rank == 0 ? send(ToMessage(report, start.fallback))
                     : absl::OkStatus();
  };
  context.on_row = [&](const AllReduceBenchRow& row) {
    ++report.row;
    report.figures = row;
    return rank == 0 ? send(ToMessage(report)) : absl::OkStatus();
  };
  return MeasureAllReduce(options, context).status();
}

}  // namespace

absl::StatusOr<std::unique_ptr<AllReduceBench>> AllReduceBench::Start(
    const AllReduceBenchOptions& options) {
  RETURN_IF_ERROR(CheckAllReduceBench(options));
  // As a worker does when it begins. Its thread has ended before the fork.
  AlgorithmPolicy policy;
  policy.costs =
      CostsOver(options.transport.value_or(Transport::kSharedMemory),
                MeasureCosts(ProbeOptions{.clock = &Clock::Real()}).costs);
  RETURN_IF_ERROR(CheckBenchMemory(0, options, Topology::OneHost(options.ranks),
                                   policy, AvailableMemoryBytes()));
  ASSIGN_OR_RETURN(const std::vector<Listener> listeners,
                   ListenForRanks(options.ranks));
  ASSIGN_OR_RETURN(
      std::unique_ptr<ForkedRanks> processes,
      ForkedRanks::Start(
          options.ranks, [&](int rank, const ForkedRanks::Send& send) {
            return RunRank(options, policy, listeners, rank, send);
          }));
  return std::unique_ptr<AllReduceBench>(
      new AllReduceBench(options.sizes.size(), std::move(processes)));
}

absl::StatusOr<AllReduceBenchStart> AllReduceBench::AwaitStart(int stop_fd) {
  ASSIGN_OR_RETURN(const std::optional<std::string> message,
                   processes_->Next(stop_fd));
  RM_CHECK(message.has_value(), "rank 0 reports its start");
  const Report report = ReportFrom(*message);
  RM_CHECK(report.row == -1, "the start comes first");
  return AllReduceBenchStart{.transport = report.transport,
                             .bus_limit = report.bus_limit,
                             .fallback = message->substr(sizeof(report))};
}

absl::StatusOr<std::optional<AllReduceBenchRow>> AllReduceBench::NextRow(
    int stop_fd) {
  ASSIGN_OR_RETURN(const std::optional<std::string> message,
                   processes_->Next(stop_fd));
  if (message.has_value()) {
    ++rows_;
    return ReportFrom(*message).figures;
  }
  RM_CHECK(rows_ == sizes_, "rank 0 reports every size before it ends");
  return std::nullopt;
}

}  // namespace ringmaster
