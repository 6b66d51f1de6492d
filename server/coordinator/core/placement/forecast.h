// Forecast: when a job that is queued is expected to begin.
//
// Each worker becomes free when its job ends, which follows from the steps that the job
// has left and how long its last ones took; a worker that is idle, or that its job has
// beyond its min, is free now. Queued jobs take as many as they need, in their order, for
// as long as their own steps take, if they have made some. It is a guess: jobs grow and
// shrink, others are submitted and cancelled, and what a job does at its end takes time,
// too. Nothing is decided by it.
//
// Pure functions of their arguments.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_FORECAST_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_FORECAST_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

// Returns how long the steps take that `job` has left; nullopt if it has made none with
// these workers, or has no steps to count by.
[[nodiscard]] std::optional<absl::Duration> TimeLeft(const Job& job);

struct Forecast {
  // nullopt: nobody can tell.
  std::optional<absl::Duration> until_start = std::nullopt;
  // "nobody can tell how long job a-1 takes": why not.
  std::string why_unknown = {};
};

// Of `job`, which waits to begin (WaitsToBegin).
[[nodiscard]] Forecast ForecastStart(const State& state, const Job& job);

// So many are foreseen whenever somebody looks at the queue.
inline constexpr size_t kMostForecasts = 32;

// Foresees the first `most` jobs that wait to begin, in their order; by number.
[[nodiscard]] std::vector<std::pair<int64_t, Forecast>> ForecastStarts(
    const State& state, size_t most);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_FORECAST_H_
