#include "server/coordinator/core/account/goodput.h"

#include <algorithm>

namespace ringmaster::coordinator {
namespace {

using Part = absl::Duration Goodput::*;

// A rollback may reset the job to no step at all; that does not make it a new
// start.
bool IsBeforeFirstStep(const Job& job) {
  return job.best_step == 0 && job.repeat_until == 0 && !job.is_recovered;
}

// The part of a job whose members should be making steps.
Part TrainingPart(const Job& job) {
  if (IsBeforeFirstStep(job)) return &Goodput::starting;
  return job.best_step < job.repeat_until ? &Goodput::repeating
                                          : &Goodput::training;
}

// The part that time belongs to while the job is as it is; null once it has
// ended.
Part PartOf(const Job& job) {
  const bool is_interrupted =
      !job.incidents.empty() && !job.incidents.back().is_over();
  switch (job.state()) {
    case v1::JOB_STATE_QUEUED:
      return &Goodput::waiting;
    case v1::JOB_STATE_GATHERING:
      return is_interrupted ? &Goodput::recovering : &Goodput::waiting;
    case v1::JOB_STATE_PREPARING:
      return is_interrupted || !IsBeforeFirstStep(job) ? &Goodput::recovering
                                                       : &Goodput::starting;
    case v1::JOB_STATE_RUNNING:
      return is_interrupted ? &Goodput::recovering : TrainingPart(job);
    case v1::JOB_STATE_HALTING:
      return IntentOf(job) == HaltIntent::kCancel ? &Goodput::stopping
                                                  : &Goodput::recovering;
    case v1::JOB_STATE_STOPPING:
      return &Goodput::stopping;
    default:
      return nullptr;
  }
}

}  // namespace

void StartAccounting(State& state, MonotonicTime now) {
  state.now = now;
  for (auto& [number, job] : state.jobs) {
    if (!IsEnded(job.state())) job.accounted_to = now;
  }
}

void AccountTime(State& state, MonotonicTime now) {
  state.now = now;
  for (const int64_t number : state.active_jobs) {
    Account(state.jobs.at(number), now);
  }
}

void Account(Job& job, MonotonicTime now) {
  if (IsEnded(job.state())) return;
  job.goodput = GoodputAt(job, now);
  job.accounted_to = std::max(now, job.accounted_to.value_or(now));
}

void MoveToDetecting(Job& job, absl::Duration duration) {
  absl::Duration& from = job.goodput.*TrainingPart(job);
  const absl::Duration moved = std::clamp(duration, absl::ZeroDuration(), from);
  from -= moved;
  job.goodput.detecting += moved;
}

Goodput GoodputAt(const Job& job, MonotonicTime now) {
  Goodput goodput = job.goodput;
  const Part part = PartOf(job);
  if (part == nullptr || !job.accounted_to.has_value() ||
      now <= *job.accounted_to) {
    return goodput;
  }
  const absl::Duration since = now - *job.accounted_to;
  goodput.*part += since;
  if (IsBeforeFirstStep(job)) goodput.before_first_step += since;
  return goodput;
}

}  // namespace ringmaster::coordinator
