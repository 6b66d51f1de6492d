// The cost model's forecast of a training step's all-reduces. Pure.
#ifndef RINGMASTER_WORKER_TRAIN_EXCHANGE_ALL_REDUCE_FORECAST_H_
#define RINGMASTER_WORKER_TRAIN_EXCHANGE_ALL_REDUCE_FORECAST_H_

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/plan/plan.h"
#include "common/plan/topology.h"
#include "common/tensor/dtype.h"
#include "worker/collective/algorithm.h"
#include "worker/collective/cost_model.h"

namespace ringmaster {

struct AllReduceForecast {
  absl::Duration duration;  // of all buckets, one after the other
  // The algorithms that they run, by ascending size, without repetitions in a
  // row. Empty in a world of one.
  std::vector<Algorithm> algorithms;
};

// Forecasts the all-reduces of `buckets` of float32 that travel as `wire`
// (none: as they are). The algorithms are those that a Communicator with the
// same policy chooses.
[[nodiscard]] AllReduceForecast ForecastAllReduces(
    absl::Span<const Bucket> buckets, std::optional<DType> wire,
    const Topology& topology, const AlgorithmPolicy& policy);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_EXCHANGE_ALL_REDUCE_FORECAST_H_
