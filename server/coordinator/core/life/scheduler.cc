#include "server/coordinator/core/life/scheduler.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/coordinator/core/account/goodput.h"
#include "server/coordinator/core/life/cordon.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/growth.h"
#include "server/coordinator/core/life/hand_over.h"
#include "server/coordinator/core/life/queues.h"
#include "server/coordinator/core/life/reform.h"
#include "server/coordinator/core/life/suspension.h"
#include "server/coordinator/core/placement/forecast.h"
#include "server/coordinator/core/placement/gifts.h"
#include "server/coordinator/core/placement/idle_pool.h"
#include "server/coordinator/core/placement/quotas.h"

namespace ringmaster::coordinator {
namespace {

// Starts are foreseen no more often than this: it takes milliseconds where there are
// thousands of workers.
constexpr absl::Duration kPredictInterval = absl::Seconds(1);

std::vector<Job*> WaitingToBegin(State& state) {
  std::vector<Job*> waiting;
  for (auto& [number, job] : state.jobs) {
    if (WaitsToBegin(job) && !state.rebuildings.contains(job.id)) {
      waiting.push_back(&job);
    }
  }
  std::sort(waiting.begin(), waiting.end(),
            [](const Job* a, const Job* b) { return IsAhead(*a, *b); });
  return waiting;
}

void BeginGathering(Turn& turn, Job& job) {
  turn.state.active_jobs.insert(job.number);
  Account(job, turn.now);
  job.stage = stage::Gathering{turn.now};
  turn.Touch(job);
  turn.Emit(v1::EVENT_SEVERITY_INFO, "job.gathering", job, "",
            absl::StrCat("waits for ", job.min_workers, " to ", job.max_workers,
                         " workers", AndServers(job.sharding.servers)));
  TryGather(turn, job);
}

// As far as it matters, jobs of one kind are alike for the workers that they may take.
struct Kind {
  int priority = 0;
  bool borrows = false;
  bool is_preemptible = false;
  bool runs_commands = false;
  WorkerNeeds needs;

  friend auto operator<=>(const Kind&, const Kind&) = default;
};

Kind KindOf(const Job& job) {
  return {job.priority, job.place.borrows, IsPreemptible(job),
          job.runs_commands, job.needs};
}

// Returns how many idle workers are left for jobs of that kind that come after all
// others of their priority and right to workers.
int UnclaimedCount(const State& state, const Kind& kind) {
  Job last;
  last.priority = kind.priority;
  last.place.borrows = kind.borrows;
  last.place.turn = std::numeric_limits<int>::max();
  last.number = std::numeric_limits<int64_t>::max();
  last.can_go_on_later = kind.is_preemptible;
  last.runs_commands = kind.runs_commands;
  last.needs = kind.needs;
  return IdlePool(state, last).Count(Hosts::kAll);
}

// The jobs that the pool could not satisfy if it had no others, of which it was asked
// before. (Those that have begun may leave hosts out that others do not.)
class TooLarge {
 public:
  explicit TooLarge(const State& state) : state_(state) {}

  bool Has(const Job& job) {
    if (!IsNew(job)) return !CouldBegin(state_, job);
    const auto it = least_
                        .emplace(std::tuple(job.needs, job.runs_commands,
                                            job.sharding.servers),
                                 kNobody)
                        .first;
    if (job.min_workers >= it->second) return true;
    if (CouldBegin(state_, job)) return false;
    it->second = job.min_workers;
    return true;
  }

 private:
  static constexpr int kNobody = std::numeric_limits<int>::max();

  const State& state_;
  // The fewest workers that were too many, by what these must be, and the parameter
  // servers beside them.
  std::map<std::tuple<WorkerNeeds, bool, int>, int> least_;
};

// Says what `job` waits for, if it is queued: its fewest members, `which`.
void SayLack(Turn& turn, Job& job, const char* which) {
  if (job.state() != v1::JOB_STATE_QUEUED) return;
  SetMessage(
      turn, job,
      absl::StrCat(SuspendedText(job), "waits for ", NeededText(job), which));
}

// `job` is the first that lacks workers; the one before is so no longer.
void SetFirst(Turn& turn, Job* job) {
  State& state = turn.state;
  const auto kept = [&state] {
    const Job* const kept_for = KeptFor(state);
    return std::pair(kept_for,
                     kept_for != nullptr && kept_for->place.is_served);
  };
  const auto kept_before = kept();
  const int64_t number = job == nullptr ? 0 : job->number;
  if (state.first_lacking != number) {
    const auto before = state.jobs.find(state.first_lacking);
    if (before != state.jobs.end()) {
      before->second.place.is_overdue = before->second.place.is_served = false;
    }
    state.first_lacking = number;
  }
  state.overdue_check = MonotonicTime::InfiniteFuture();
  if (job != nullptr) {
    if (!job->place.first_since.has_value()) job->place.first_since = turn.now;
    const MonotonicTime due =
        *job->place.first_since + turn.config.overtake_time;
    job->place.is_overdue = due <= turn.now;
    if (!job->place.is_overdue) state.overdue_check = due;
    // Others claim less while workers are kept for it: it stays so until it begins
    // with them.
    job->place.is_served =
        (KeptFor(state) == job && CanBegin(state, *job)) ||
        std::ranges::any_of(Gifts(state), [job](const Gift& gift) {
          return gift.taker == job;
        });
  }
  // Jobs that have been looked at before may take more, or less, or give.
  if (kept() != kept_before) turn.ScheduleSoon();
  if (job == nullptr) return;
  SayLack(turn, *job,
          KeptFor(state) == job ? "; workers that become idle are kept for it"
                                : "");
}

// The room in queues that have a limit, for jobs that are looked at in their order.
class Rooms {
 public:
  explicit Rooms(State& state) : state_(state) {}

  // Returns true if `job`, which is queued, waits for room in its queue. Only the
  // `first` that lacks workers is given any.
  bool Hold(Job& job, bool is_first) {
    const Queue* const queue = LimitedQueueOf(job);
    if (queue == nullptr) return false;
    job.place.needed_ahead = ahead_[queue];
    if (!HasRoom(state_, job)) return true;
    const auto [most, is_new] = most_.try_emplace(queue, 0);
    if (is_new) most->second = MostOfQueue(state_, job);
    return most->second < job.min_workers && !(is_first && IsGivenRoom(job));
  }

  // `job` goes on waiting: those behind it leave it its room, unless it never has any.
  void Reserve(const Job& job) {
    const Queue* const queue = LimitedQueueOf(job);
    if (queue != nullptr && job.min_workers <= queue->spec.most_workers()) {
      ahead_[queue] += job.min_workers;
    }
  }

  // `job` has begun.
  void Take(const Job& job) {
    if (LimitedQueueOf(job) == nullptr) return;
    SetStandings(state_);
    most_.clear();
  }

 private:
  const Queue* LimitedQueueOf(const Job& job) const {
    const Queue* const queue = QueueOf(state_, job);
    return queue != nullptr && queue->spec.has_most_workers() ? queue : nullptr;
  }

  // Others of its queue, which have more than their fewest, would give it workers.
  bool IsGivenRoom(const Job& job) {
    const int64_t first = std::exchange(state_.first_lacking, job.number);
    const bool is_given = std::ranges::any_of(
        Gifts(state_), [&](const Gift& gift) { return gift.taker == &job; });
    state_.first_lacking = first;
    return is_given;
  }

  State& state_;
  // By queue: what those that wait need, and MostOfQueue for one more.
  std::map<const Queue*, int64_t> ahead_;
  std::map<const Queue*, int> most_;
};

// Notes when those of the queue are expected to begin of whom nobody could tell yet.
void PredictStarts(Turn& turn) {
  State& state = turn.state;
  const auto is_to_be_told = [](const Job& job) {
    return job.state() == v1::JOB_STATE_QUEUED && IsNew(job) &&
           WaitsToBegin(job) &&
           job.predicted_start_time == absl::InfinitePast();
  };
  if (turn.now < state.predict_after ||
      std::ranges::none_of(state.jobs, [&](const auto& entry) {
        return is_to_be_told(entry.second);
      })) {
    return;
  }
  state.predict_after = turn.now + kPredictInterval;
  for (const auto& [number, forecast] : ForecastStarts(state, kMostForecasts)) {
    Job& job = state.jobs.at(number);
    if (is_to_be_told(job) && forecast.until_start.has_value())
      job.predicted_start_time = turn.time + *forecast.until_start;
  }
}

// Queued jobs begin in their order, as far as there are workers. Of a long queue
// only those are looked at closely for which there may be enough.
void AdvanceQueue(Turn& turn) {
  State& state = turn.state;
  Job* first = nullptr;
  std::map<Kind, int> unclaimed;
  TooLarge too_large(state);
  Rooms rooms(state);
  const std::vector<Job*> waiting = WaitingToBegin(state);
  for (Job* const job : waiting) {
    if (job->state() == v1::JOB_STATE_QUEUED &&
        rooms.Hold(*job, /*is_first=*/first == nullptr)) {
      SetMessage(turn, *job,
                 absl::StrCat(SuspendedText(*job), RoomText(state, *job)));
      if (!too_large.Has(*job)) rooms.Reserve(*job);
      continue;
    }
    const bool is_reserving = KeptFor(state) == job;
    const bool has_claim =
        is_reserving || job->state() == v1::JOB_STATE_GATHERING;
    const Kind kind = KindOf(*job);
    if (!unclaimed.contains(kind)) {
      unclaimed[kind] = UnclaimedCount(state, kind);
    }
    const bool may_begin =
        (has_claim || job->min_workers <= unclaimed.at(kind)) &&
        CanBegin(state, *job);
    // Only of a few it matters whether the pool is large enough.
    const bool could_begin = (!may_begin || is_reserving) &&
                             (first == nullptr || !IsNew(*job)) &&
                             !too_large.Has(*job);
    const bool is_first = first == nullptr && could_begin;
    if (is_first) {
      first = job;
      SetFirst(turn, first);
    }
    // With nobody before it, a job says itself what it waits for. One that has begun
    // before would claim what it lacks, and hold up smaller ones.
    const bool begins =
        job->state() == v1::JOB_STATE_QUEUED &&
        (may_begin || (state.active_jobs.empty() && state.queues.empty() &&
                       job == waiting.front() && IsNew(*job)));
    if (begins) {
      BeginGathering(turn, *job);
      rooms.Take(*job);
    } else if (job->state() == v1::JOB_STATE_QUEUED && !state.queues.empty() &&
               !too_large.Has(*job)) {
      rooms.Reserve(*job);
    }
    if (!may_begin && !could_begin && (first == nullptr || !IsNew(*job))) {
      SayLack(turn, *job, ", more than there are");
    } else if (!is_first && IsNew(*job) &&
               job->state() == v1::JOB_STATE_QUEUED) {
      SetMessage(turn, *job, QueuedText(*job));
    }
    if (begins || is_first) unclaimed.clear();
  }
  if (first == nullptr) SetFirst(turn, nullptr);
  PredictStarts(turn);
}

}  // namespace

void Schedule(Turn& turn) {
  turn.state.must_schedule = false;
  SetStandings(turn.state);
  std::vector<Job*> active = turn.state.ActiveJobs();
  std::sort(active.begin(), active.end(),
            [](const Job* a, const Job* b) { return IsBefore(*a, *b); });
  // Those that train come last.
  for (Job* const job : active) {
    if (job->state() != v1::JOB_STATE_GATHERING) continue;
    // It would fill its queue without a worker.
    if (!turn.state.queues.empty() && job->members.empty() &&
        !CanBegin(turn.state, *job)) {
      ReturnToQueue(turn, *job);
    } else {
      TryGather(turn, *job);
    }
  }
  if (turn.state.rebuildings.empty()) AdvanceQueue(turn);
  const std::vector<Gift> gifts = Gifts(turn.state);
  for (Job* const job : active) ArmGrowth(turn, *job, gifts);
  EndNeedlessRehearsals(turn);
  NoteEmpty(turn);
  SaveUse(turn);
}

int MostWorkers(const State& state, const Job& job, int unreplaced) {
  if (job.min_workers == job.max_workers) return job.max_workers;
  // One of a lower priority lets this job have what it takes.
  const auto lacks_others = [&](int64_t number) {
    const Job& other = state.jobs.at(number);
    return number != job.number && other.priority >= job.priority &&
           IsWaiting(other) &&
           std::get<stage::Gathering>(other.stage).rest_deadline == kNever;
  };
  const auto first = state.jobs.find(state.first_lacking);
  const bool is_first = first == state.jobs.end() ||
                        first->second.number == job.number ||
                        first->second.priority < job.priority ||
                        !AreRivals(state, first->second, job);
  const bool has_rivals =
      !is_first || std::any_of(state.active_jobs.begin(),
                               state.active_jobs.end(), lacks_others);
  const int most = has_rivals
                       ? job.min_workers
                       : std::max(job.min_workers, MostOfQueue(state, job));
  if (most >= job.max_workers) return job.max_workers;
  const int leaving = AliveCount(job, v1::ROLE_WORKER) -
                      StayingCount(state, job, v1::ROLE_WORKER);
  return std::min(job.max_workers, most + leaving - unreplaced);
}

}  // namespace ringmaster::coordinator
