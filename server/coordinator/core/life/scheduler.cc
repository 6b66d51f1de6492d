#include "server/coordinator/core/life/scheduler.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/coordinator/core/account/goodput.h"
#include "server/coordinator/core/life/cordon.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/growth.h"
#include "server/coordinator/core/life/hand_over.h"
#include "server/coordinator/core/life/suspension.h"
#include "server/coordinator/core/placement/gifts.h"
#include "server/coordinator/core/placement/idle_pool.h"

namespace ringmaster::coordinator {
namespace {

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
  job.state = v1::JOB_STATE_GATHERING;
  job.gathering_since = turn.now;
  turn.Touch(job);
  turn.Emit(v1::EVENT_SEVERITY_INFO, "job.gathering", job, "",
            absl::StrCat("waits for ", job.min_workers, " to ", job.max_workers,
                         " workers", AndServers(job.sharding.servers)));
  TryGather(turn, job);
}

// As far as it matters, jobs of one kind are alike for the workers that they may take.
struct Kind {
  int priority = 0;
  bool is_preemptible = false;
  bool runs_commands = false;
  Labels required_labels;

  friend auto operator<=>(const Kind&, const Kind&) = default;
};

Kind KindOf(const Job& job) {
  return {job.priority, IsPreemptible(job), job.runs_commands,
          job.required_labels};
}

// Returns how many idle workers are left for jobs of that kind that come after all
// others of their priority.
int UnclaimedCount(const State& state, const Kind& kind) {
  Job last;
  last.priority = kind.priority;
  last.number = std::numeric_limits<int64_t>::max();
  last.resumes = kind.is_preemptible;
  last.runs_commands = kind.runs_commands;
  last.required_labels = kind.required_labels;
  return IdlePool(state, last).Count(Hosts::kAll);
}

// The jobs that the pool could not satisfy if it had no others, of which it was asked
// before. (Those that have begun may leave hosts out that others do not.)
class TooLarge {
 public:
  explicit TooLarge(const State& state) : state_(state) {}

  bool Has(const Job& job) {
    if (!IsNew(job)) return !CouldBegin(state_, job);
    const auto it =
        least_.emplace(std::pair(KindOf(job), job.sharding.servers), kNobody)
            .first;
    if (job.min_workers >= it->second) return true;
    if (CouldBegin(state_, job)) return false;
    it->second = job.min_workers;
    return true;
  }

 private:
  static constexpr int kNobody = std::numeric_limits<int>::max();

  const State& state_;
  // The fewest workers that were too many, by kind and parameter servers.
  std::map<std::pair<Kind, int>, int> least_;
};

// Says what `job` waits for, if it is queued: its fewest members, `which`.
void SayLack(Turn& turn, Job& job, const char* which) {
  if (job.state != v1::JOB_STATE_QUEUED) return;
  SetMessage(
      turn, job,
      absl::StrCat(SuspendedText(job), "waits for ", NeededText(job), which));
}

// `job` is the first that lacks workers; the one before is so no longer.
void SetFirst(Turn& turn, Job* job) {
  State& state = turn.state;
  const auto kept = [&state] {
    const Job* const kept_for = KeptFor(state);
    return std::pair(kept_for, kept_for != nullptr && kept_for->is_served);
  };
  const auto kept_before = kept();
  const int64_t number = job == nullptr ? 0 : job->number;
  if (state.first_lacking != number) {
    const auto before = state.jobs.find(state.first_lacking);
    if (before != state.jobs.end()) {
      before->second.is_overdue = before->second.is_served = false;
    }
    state.first_lacking = number;
  }
  state.overdue_check = MonotonicTime::InfiniteFuture();
  if (job != nullptr) {
    if (!job->first_since.has_value()) job->first_since = turn.now;
    const MonotonicTime due = *job->first_since + turn.config.overtake_time;
    job->is_overdue = due <= turn.now;
    if (!job->is_overdue) state.overdue_check = due;
    // Others claim less while workers are kept for it: it stays so until it begins
    // with them.
    job->is_served = (KeptFor(state) == job && CanBegin(state, *job)) ||
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

// Queued jobs begin in their order, as far as there are workers. Of a long queue
// only those are looked at closely for which there may be enough.
void AdvanceQueue(Turn& turn) {
  State& state = turn.state;
  Job* first = nullptr;
  std::map<Kind, int> unclaimed;
  TooLarge too_large(state);
  const std::vector<Job*> waiting = WaitingToBegin(state);
  for (Job* const job : waiting) {
    const bool is_reserving = KeptFor(state) == job;
    const bool has_claim =
        is_reserving || job->state == v1::JOB_STATE_GATHERING;
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
    const bool begins = job->state == v1::JOB_STATE_QUEUED &&
                        (may_begin || (state.active_jobs.empty() &&
                                       job == waiting.front() && IsNew(*job)));
    if (begins) BeginGathering(turn, *job);
    if (!may_begin && !could_begin && (first == nullptr || !IsNew(*job))) {
      SayLack(turn, *job, ", more than there are");
    } else if (!is_first && IsNew(*job) && job->state == v1::JOB_STATE_QUEUED) {
      SetMessage(turn, *job, QueuedText(*job));
    }
    if (begins || is_first) unclaimed.clear();
  }
  if (first == nullptr) SetFirst(turn, nullptr);
}

}  // namespace

void Schedule(Turn& turn) {
  turn.state.must_schedule = false;
  std::vector<Job*> active = turn.state.ActiveJobs();
  std::sort(active.begin(), active.end(),
            [](const Job* a, const Job* b) { return IsBefore(*a, *b); });
  // Those that train come last.
  for (Job* const job : active) {
    if (job->state == v1::JOB_STATE_GATHERING) TryGather(turn, *job);
  }
  if (turn.state.rebuildings.empty()) AdvanceQueue(turn);
  const std::vector<Gift> gifts = Gifts(turn.state);
  for (Job* const job : active) ArmGrowth(turn, *job, gifts);
  EndNeedlessRehearsals(turn);
  NoteEmpty(turn);
}

int MostWorkers(const State& state, const Job& job, int unreplaced) {
  if (job.min_workers == job.max_workers) return job.max_workers;
  // One of a lower priority lets this job have what it takes.
  const auto lacks_others = [&](int64_t number) {
    const Job& other = state.jobs.at(number);
    return number != job.number && other.priority >= job.priority &&
           other.state == v1::JOB_STATE_GATHERING && !IsNew(other);
  };
  const auto first = state.jobs.find(state.first_lacking);
  const bool is_first = first == state.jobs.end() ||
                        first->second.number == job.number ||
                        first->second.priority < job.priority ||
                        !AreRivals(state, first->second, job);
  if (is_first && std::none_of(state.active_jobs.begin(),
                               state.active_jobs.end(), lacks_others)) {
    return job.max_workers;
  }
  const int leaving = AliveCount(job, v1::ROLE_WORKER) -
                      StayingCount(state, job, v1::ROLE_WORKER);
  return std::min(job.max_workers, job.min_workers + leaving - unreplaced);
}

}  // namespace ringmaster::coordinator
