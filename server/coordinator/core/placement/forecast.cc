#include "server/coordinator/core/placement/forecast.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"
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

// A slot, and when a job could have it.
struct Chance {
  Slot* slot = nullptr;
  absl::Duration in;
};

bool IsSooner(const Chance& a, const Chance& b) { return a.in < b.in; }

// Returns when the host of `slot` has room for it beside `taken` others of `job`: once
// enough of those are free that say what they need. InfiniteDuration: never.
absl::Duration RoomIn(const Job& job, const Slot& slot, int taken,
                      const std::vector<Slot>& slots) {
  const int64_t room =
      slot.worker->host_memory_bytes - (taken + 1) * job.needs.memory_bytes;
  if (room < 0) return absl::InfiniteDuration();
  std::vector<std::pair<absl::Duration, int64_t>> others;
  int64_t used = 0;
  for (const Slot& other : slots) {
    if (other.worker->host_key != slot.worker->host_key ||
        other.job == nullptr || other.free_in <= slot.free_in) {
      continue;
    }
    others.emplace_back(other.free_in, other.job->needs.memory_bytes);
    used += other.job->needs.memory_bytes;
  }
  std::sort(others.begin(), others.end());
  absl::Duration in = slot.free_in;
  for (const auto& [free_in, bytes] : others) {
    if (used <= room) break;
    used -= bytes;
    in = free_in;
  }
  return in;
}

// Returns the `count` slots of that role that `job` could have first; fewer if there are
// fewer that are fit for it.
std::vector<Chance> FirstFree(const Job& job, v1::Role role, int count,
                              std::vector<Slot>& slots) {
  std::vector<Chance> fit;
  for (Slot& slot : slots) {
    if (slot.worker->role == role && IsFitFor(job, *slot.worker))
      fit.push_back({&slot, slot.free_in});
  }
  std::stable_sort(fit.begin(), fit.end(), IsSooner);
  if (role == v1::ROLE_WORKER && job.needs.LooksAtHosts()) {
    std::map<std::string_view, int> taken;
    std::erase_if(fit, [&](Chance& chance) {
      int& here = taken[chance.slot->worker->host_key];
      if (job.needs.one_per_host && here > 0) return true;
      if (job.needs.memory_bytes > 0) {
        const int64_t all = (here + 1) * job.needs.memory_bytes;
        if (all > chance.slot->worker->host_memory_bytes) return true;
        chance.in = RoomIn(job, *chance.slot, here, slots);
      }
      ++here;
      return false;
    });
    std::stable_sort(fit.begin(), fit.end(), IsSooner);
  }
  if (fit.size() > static_cast<size_t>(count)) fit.resize(count);
  return fit;
}

// Lets `job` take the slots that it needs to begin.
Forecast Place(const Job& job, std::vector<Slot>& slots) {
  Forecast forecast = {.until_start = absl::ZeroDuration()};
  std::vector<Chance> taken;
  for (const auto& [role, count] :
       {std::pair(v1::ROLE_WORKER, job.min_workers),
        {v1::ROLE_PARAMETER_SERVER, job.sharding.servers}}) {
    const std::vector<Chance> first = FirstFree(job, role, count, slots);
    if (first.size() < static_cast<size_t>(count)) {
      return {.why_unknown = absl::StrCat("it needs ", NeededText(job),
                                          ", more than there are")};
    }
    taken.insert(taken.end(), first.begin(), first.end());
  }
  for (const Chance& chance : taken) {
    forecast.until_start = std::max(*forecast.until_start, chance.in);
  }
  const absl::Duration until =
      *forecast.until_start + TimeLeft(job).value_or(absl::InfiniteDuration());
  if (*forecast.until_start == absl::InfiniteDuration()) {
    const auto unknown =
        std::ranges::find(taken, absl::InfiniteDuration(), &Chance::in);
    forecast = {.why_unknown = absl::StrCat(
                    "nobody can tell how long ",
                    unknown->slot->free_in < unknown->in
                        ? absl::StrCat("jobs on ", unknown->slot->worker->host)
                        : absl::StrCat("job ", unknown->slot->job->id),
                    " take", unknown->slot->free_in < unknown->in ? "" : "s")};
  }
  for (const Chance& chance : taken) {
    *chance.slot = {chance.slot->worker, until, &job};
  }
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
