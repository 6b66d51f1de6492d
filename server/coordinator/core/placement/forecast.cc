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

// Returns the `count` slots of that role that are the first to be free and fit for
// `job`; fewer if there are fewer.
std::vector<Slot*> FirstFree(const Job& job, v1::Role role, int count,
                             std::vector<Slot>& slots) {
  std::vector<Slot*> fit;
  for (Slot& slot : slots) {
    if (slot.worker->role == role && IsFitFor(job, *slot.worker))
      fit.push_back(&slot);
  }
  std::stable_sort(fit.begin(), fit.end(), [](const Slot* a, const Slot* b) {
    return a->free_in < b->free_in;
  });
  if (fit.size() > static_cast<size_t>(count)) fit.resize(count);
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
  std::vector<const Job*> before;
  for (const auto& [number, other] : state.jobs) {
    if (WaitsToBegin(other) && &other != &job && IsAhead(other, job))
      before.push_back(&other);
  }
  std::sort(before.begin(), before.end(),
            [](const Job* a, const Job* b) { return IsAhead(*a, *b); });
  std::vector<Slot> slots = SlotsOf(state);
  for (const Job* const other : before) (void)Place(*other, slots);
  return Place(job, slots);
}

}  // namespace ringmaster::coordinator
