#include "worker/train/exchange/all_reduce_forecast.h"

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
  // Most buckets have the same size, and a prediction among many ranks takes
  // milliseconds.
  std::map<int64_t, int> times;  // by count
  for (const Bucket& bucket : buckets) ++times[bucket.range.count];
  double seconds = 0;
  for (const auto& [count, number] : times) {
    CollectiveRequest request =
        AllReduceSum({nullptr, count, DType::kFloat32, MemoryKind::kHost});
    request.wire = wire;
    const Algorithm algorithm = ChooseAlgorithm(request, topology, policy);
    seconds +=
        number * PredictAllReduce(algorithm, count * SizeOf(WireOf(request)),
                                  topology, policy.costs);
    if (forecast.algorithms.empty() || forecast.algorithms.back() != algorithm)
      forecast.algorithms.push_back(algorithm);
  }
  forecast.duration = absl::Seconds(seconds);
  return forecast;
}

}  // namespace ringmaster
