#include "worker/train/all_reduce_forecast.h"

#include <cstdint>
#include <map>

#include "worker/collective/communicator.h"

namespace ringmaster {

AllReduceForecast ForecastAllReduces(absl::Span<const Bucket> buckets,
                                     std::optional<DType> wire,
                                     const Topology& topology,
                                     const AlgorithmPolicy& policy) {
  AllReduceForecast forecast;
  if (topology.world_size() < 2) return forecast;
  std::map<int64_t, Algorithm> by_count;
  double seconds = 0;
  for (const Bucket& bucket : buckets) {
    CollectiveRequest request = AllReduceSum(
        {nullptr, bucket.range.count, DType::kFloat32, MemoryKind::kHost});
    request.wire = wire;
    const Algorithm algorithm = ChooseAlgorithm(request, topology, policy);
    by_count[bucket.range.count] = algorithm;
    seconds += PredictAllReduce(algorithm,
                                bucket.range.count * SizeOf(WireOf(request)),
                                topology, policy.costs);
  }
  for (const auto& [count, algorithm] : by_count) {
    if (forecast.algorithms.empty() || forecast.algorithms.back() != algorithm)
      forecast.algorithms.push_back(algorithm);
  }
  forecast.duration = absl::Seconds(seconds);
  return forecast;
}

}  // namespace ringmaster
