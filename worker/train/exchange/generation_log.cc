#include "worker/train/exchange/generation_log.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/logging/logging.h"
#include "common/protocol/proto_time.h"
#include "worker/collective/algorithm.h"

namespace ringmaster {

void LogTransports(const Communicator& communicator) {
  std::array<int64_t, 4> counts = {};
  for (int rank = 0; rank < communicator.world_size(); ++rank)
    ++counts[static_cast<size_t>(communicator.TransportTo(rank))];
  const auto of = [&](Transport transport) {
    return counts[static_cast<size_t>(transport)];
  };
  LogEvent(LogLevel::kInfo, "mesh.connected",
           {{"shared_memory", of(Transport::kSharedMemory)},
            {"unix", of(Transport::kUnix)},
            {"tcp", of(Transport::kTcp)}});
}

void LogMostAwaited(const ParameterSync& sync) {
  int awaited = -1;
  absl::Duration longest;
  for (int rank = 0; rank < sync.peer_ranks(); ++rank) {
    const absl::Duration waited = sync.WaitedFor(rank);
    if (waited <= longest) continue;
    longest = waited;
    awaited = rank;
  }
  if (awaited < 0) return;
  LogEvent(LogLevel::kInfo, "mesh.waited",
           {{"peer", awaited}, {"seconds", absl::ToDoubleSeconds(longest)}});
}

void LogAllReduces(const v1::TrainingFigures& figures) {
  const absl::Duration taken = FromProto(figures.all_reduce_duration());
  if (taken <= absl::ZeroDuration()) return;
  std::vector<const char*> names;
  for (const int algorithm : figures.all_reduce_algorithms())
    names.push_back(AlgorithmName(static_cast<Algorithm>(algorithm)));
  LogEvent(LogLevel::kInfo, "mesh.all_reduce",
           {{"algorithm", absl::StrJoin(names, ",")},
            {"seconds_per_step", absl::ToDoubleSeconds(taken)},
            {"predicted", absl::ToDoubleSeconds(FromProto(
                              figures.predicted_all_reduce_duration()))}});
}

void LogCounters(const MetricRegistry& metrics) {
  if (!IsLogged(LogLevel::kDebug)) return;
  for (const MetricSample& sample : metrics.Samples()) {
    LogEvent(LogLevel::kDebug, "counter",
             {{"name", sample.name}, {"value", sample.value}});
  }
}

}  // namespace ringmaster
