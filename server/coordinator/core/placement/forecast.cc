#include "server/coordinator/core/placement/forecast.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"
#include "server/coordinator/core/placement/host_spread.h"
#include "server/coordinator/core/placement/idle_pool.h"
#include "server/coordinator/core/placement/quotas.h"

namespace ringmaster::coordinator {
namespace {

// A worker, and when it is free for the next job.
struct Slot {
  const Worker* worker = nullptr;
  absl::Duration free_in;
  // The job that has it until then.
  const Job* job = nullptr;
};

// Returns the workers of `job` beyond its min, which it gives to others: its last ranks.
std::vector<const Worker*> SpareOf(const State& state, const Job& job) {
  std::vector<const Worker*> spare;
  if (job.runs_commands || job.is_benchmark) return spare;
  int count = AliveCount(job, v1::ROLE_WORKER) - job.min_workers;
  for (auto it = job.members.rbegin(); it != job.members.rend(); ++it) {
    if (count <= 0) break;
    if (it->is_lost || it->identity.role != v1::ROLE_WORKER) continue;
    spare.push_back(state.FindWorker(it->identity.worker));
    --count;
  }
  return spare;
}

std::vector<Slot> SlotsOf(const State& state) {
  std::map<std::string_view, Slot> slots;
  for (const auto& [name, worker] : state.workers) {
    if (worker.session == 0 || worker.state == v1::WORKER_STATE_DRAINING ||
        state.CordonOf(worker) != nullptr) {
      continue;
    }
    const Job* const job = state.JobOf(worker);
    const absl::Duration left =
        job == nullptr ? absl::ZeroDuration()
                       : TimeLeft(*job).value_or(absl::InfiniteDuration());
    slots.emplace(worker.name, Slot{&worker, left, job});
  }
  for (const Job* const job : state.ActiveJobs()) {
    for (const Worker* const worker : SpareOf(state, *job)) {
      const auto it =
          worker == nullptr ? slots.end() : slots.find(worker->name);
      if (it != slots.end()) it->second.free_in = absl::ZeroDuration();
    }
  }
  std::vector<Slot> all;
  for (const auto& [name, slot] : slots) all.push_back(slot);
  return all;
}

bool IsSooner(const Slot* a, const Slot* b) {
  // Slots of one vector, in its order.
  return a->free_in != b->free_in ? a->free_in < b->free_in : a < b;
}

// Returns the `count` slots of that role that are the first to be free and fit for
// `job`, in any order; fewer if there are fewer.
std::vector<Slot*> FirstFree(const Job& job, v1::Role role, int count,
                             std::vector<Slot>& slots) {
  std::vector<Slot*> fit;
  for (Slot& slot : slots) {
    if (slot.worker->role == role && IsFitFor(job, *slot.worker))
      fit.push_back(&slot);
  }
  if (job.needs.one_per_host) {
    std::sort(fit.begin(), fit.end(), IsSooner);
    HostSpread spread(job);
    std::erase_if(
        fit, [&](const Slot* slot) { return !spread.Take(*slot->worker); });
  }
  if (fit.size() > static_cast<size_t>(count)) {
    std::nth_element(fit.begin(), fit.begin() + count, fit.end(), IsSooner);
    fit.resize(count);
  }
  return fit;
}

// Lets `job` take the slots that it needs to begin.
Forecast Place(const Job& job, std::vector<Slot>& slots) {
  Forecast forecast = {.until_start = absl::ZeroDuration()};
  std::vector<Slot*> taken;
  for (const auto& [role, count] :
       {std::pair(v1::ROLE_WORKER, job.min_workers),
        {v1::ROLE_PARAMETER_SERVER, job.sharding.servers}}) {
    const std::vector<Slot*> first = FirstFree(job, role, count, slots);
    if (first.size() < static_cast<size_t>(count)) {
      return {.why_unknown = absl::StrCat("it needs ", NeededText(job),
                                          ", more than there are")};
    }
    taken.insert(taken.end(), first.begin(), first.end());
  }
  for (const Slot* const slot : taken) {
    forecast.until_start = std::max(*forecast.until_start, slot->free_in);
  }
  const absl::Duration until =
      *forecast.until_start + TimeLeft(job).value_or(absl::InfiniteDuration());
  if (*forecast.until_start == absl::InfiniteDuration()) {
    const auto unknown =
        std::ranges::find(taken, absl::InfiniteDuration(), &Slot::free_in);
    forecast = {.why_unknown = absl::StrCat("nobody can tell how long job ",
                                            (*unknown)->job->id, " takes")};
  }
  for (Slot* const slot : taken) *slot = {slot->worker, until, &job};
  return forecast;
}

// Jobs that wait to begin, in their order.
std::vector<const Job*> Waiting(const State& state) {
  std::vector<const Job*> waiting;
  for (const auto& [number, job] : state.jobs) {
    if (WaitsToBegin(job)) waiting.push_back(&job);
  }
  std::sort(waiting.begin(), waiting.end(),
            [](const Job* a, const Job* b) { return IsAhead(*a, *b); });
  return waiting;
}

}  // namespace

std::optional<absl::Duration> TimeLeft(const Job& job) {
  const absl::Duration step = FromProto(job.figures.step_duration());
  if (job.runs_commands || job.is_benchmark || job.can_end_early ||
      step <= absl::ZeroDuration()) {
    return std::nullopt;
  }
  return std::max<int64_t>(0, job.total_steps - job.best_step) * step;
}

Forecast ForecastStart(const State& state, const Job& job) {
  if (const std::string room = RoomText(state, job); !room.empty())
    return {.why_unknown = room};
  std::vector<Slot> slots = SlotsOf(state);
  for (const Job* const other : Waiting(state)) {
    if (other == &job) break;
    (void)Place(*other, slots);
  }
  return Place(job, slots);
}

std::vector<std::pair<int64_t, Forecast>> ForecastStarts(const State& state,
                                                         size_t most) {
  std::vector<std::pair<int64_t, Forecast>> forecasts;
  std::vector<Slot> slots;
  for (const Job* const job : Waiting(state)) {
    if (forecasts.size() == most) break;
    if (forecasts.empty()) slots = SlotsOf(state);
    Forecast forecast = Place(*job, slots);
    if (const std::string room = RoomText(state, *job); !room.empty())
      forecast = {.why_unknown = room};
    forecasts.emplace_back(job->number, std::move(forecast));
  }
  return forecasts;
}

}  // namespace ringmaster::coordinator
