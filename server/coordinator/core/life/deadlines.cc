#include "server/coordinator/core/life/deadlines.h"

#include <algorithm>

#include "server/coordinator/core/account/flight.h"
#include "server/coordinator/core/life/absence.h"
#include "server/coordinator/core/life/broken_links.h"
#include "server/coordinator/core/life/cordon.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/growth.h"
#include "server/coordinator/core/life/halt.h"
#include "server/coordinator/core/life/hand_over.h"
#include "server/coordinator/core/life/membership.h"
#include "server/coordinator/core/life/other_coordinator.h"
#include "server/coordinator/core/life/probing.h"
#include "server/coordinator/core/life/progress.h"
#include "server/coordinator/core/life/quarantine.h"
#include "server/coordinator/core/life/rebuild.h"
#include "server/coordinator/core/life/rehearsal.h"
#include "server/coordinator/core/life/training.h"
#include "server/coordinator/core/state/formed.h"

namespace ringmaster::coordinator {

namespace {

MonotonicTime EarliestOf(const Job& job) {
  return std::min({EarliestDeadline(job.stage), job.link_check,
                   job.growth.rehearsal_deadline, job.suspicions.deadline,
                   job.reattach_deadline, job.absence.return_deadline,
                   job.absence.holders_deadline, job.hand_over_deadline,
                   job.suspend_retry, job.flight_deadline,
                   EarlyProbeDeadline(job), ProgressDeadline(job)});
}

// Returns true if `deadline` of stage `S` is due, and `job` is in that.
template <typename S>
bool IsDue(const Turn& turn, const Job& job, MonotonicTime S::*deadline) {
  const S* const stage = std::get_if<S>(&job.stage);
  return stage != nullptr && stage->*deadline <= turn.now;
}

// The order matters if several are due: the best explanation of an incident
// comes first. Each action may end the job's state, and with it the other
// deadlines.
void ActOnDeadlinesOf(Turn& turn, Job& job) {
  const auto is_due = [&turn](MonotonicTime deadline) {
    return deadline <= turn.now;
  };
  LoseEnded(turn, job);
  if (is_due(job.reattach_deadline)) OnReattachDeadline(turn, job);
  HastenSuspicions(turn, job);
  if (is_due(job.suspicions.deadline)) OnSuspicionDeadline(turn, job);
  const MonotonicTime probed_by = EarlyProbeDeadline(job);
  if (probed_by <= turn.now ||
      (probed_by != MonotonicTime::InfiniteFuture() && HasAllAnswers(job))) {
    OnEarlyProbe(turn, job);
  }
  if (IsDue(turn, job, &stage::Halting::deadline)) OnHaltDeadline(turn, job);
  if (is_due(job.absence.return_deadline)) OnReturnDeadline(turn, job);
  if (is_due(job.absence.holders_deadline)) OnHoldersDeadline(turn, job);
  if (is_due(job.hand_over_deadline)) OnHandOverDeadline(turn, job);
  if (IsDue(turn, job, &stage::Stopping::deadline)) OnStopDeadline(turn, job);
  if (IsDue(turn, job, &stage::Running::pause_deadline))
    OnPauseDeadline(turn, job);
  if (is_due(job.link_check)) OnLinkCheck(turn, job);
  if (IsDue(turn, job, &stage::Gathering::gang_deadline)) turn.ScheduleSoon();
  if (IsDue(turn, job, &stage::Gathering::rest_deadline)) {
    std::get<stage::Gathering>(job.stage).rest_deadline = kNever;
    turn.ScheduleSoon();
  }
  if (is_due(job.suspend_retry)) {
    job.suspend_retry = MonotonicTime::InfiniteFuture();
    job.has_closed = false;
    turn.ScheduleSoon();
  }
  if (is_due(job.growth.rehearsal_deadline)) OnRehearsalDeadline(turn, job);
  if (IsDue(turn, job, &stage::Running::growth_deadline))
    OnGrowthDeadline(turn, job);
  if (ProgressDeadline(job) <= turn.now) OnProgressDeadline(turn, job);
  if (is_due(job.flight_deadline)) AskForFlight(turn, job);
}

}  // namespace

MonotonicTime EarliestDeadline(const State& state) {
  if (state.is_shutting_down) return MonotonicTime::InfiniteFuture();
  MonotonicTime earliest = std::min(state.lease_check, state.quarantine_check);
  for (const auto& [id, rebuilding] : state.rebuildings) {
    earliest = std::min(earliest, rebuilding.deadline);
  }
  if (IsOutdated(state)) return earliest;
  earliest = std::min(
      {earliest, state.overdue_check, state.turns_check, state.cordon_check});
  for (const int64_t number : state.active_jobs) {
    earliest = std::min(earliest, EarliestOf(state.jobs.at(number)));
  }
  return earliest;
}

void ActOnDeadlines(Turn& turn) {
  if (turn.state.lease_check <= turn.now) ExpireLeases(turn);
  OnRebuildDeadlines(turn);
  if (IsOutdated(turn.state)) {
    HoldDeadlines(turn);
    if (turn.state.quarantine_check <= turn.now) OnQuarantineCheck(turn);
    return;
  }
  if (turn.state.quarantine_check <= turn.now) OnQuarantineCheck(turn);
  if (turn.state.overdue_check <= turn.now) {
    turn.state.overdue_check = MonotonicTime::InfiniteFuture();
    turn.ScheduleSoon();
  }
  if (turn.state.cordon_check <= turn.now) OnCordonsDue(turn);
  if (turn.state.turns_check <= turn.now) {
    turn.state.turns_check = MonotonicTime::InfiniteFuture();
    turn.ScheduleSoon();
  }
  for (Job* const job : turn.state.ActiveJobs()) ActOnDeadlinesOf(turn, *job);
}

// A coordinator that nobody has reached yet waits for its members from the first
// worker on.
void AwaitFirstWorker(Turn& turn) {
  if (!turn.state.sessions.empty()) return;
  absl::Duration waited;
  for (const Job* const job : turn.state.ActiveJobs()) {
    if (job->reattach_deadline == MonotonicTime::InfiniteFuture() ||
        job->cancel_reason.has_value()) {
      continue;
    }
    waited = std::max(waited, turn.now + turn.config.reattach_budget -
                                  job->reattach_deadline);
  }
  if (waited > absl::ZeroDuration()) ExtendDeadlines(turn.state, waited);
}

void ExtendDeadlines(State& state, absl::Duration delay) {
  for (auto& [name, worker] : state.workers) {
    worker.last_heard += delay;
    worker.last_at_work += delay;
    if (worker.rehearsal.has_value()) worker.rehearsal->deadline += delay;
  }
  state.lease_check += delay;
  for (auto& [id, rebuilding] : state.rebuildings) rebuilding.deadline += delay;
  for (Job* const job : state.ActiveJobs()) {
    job->last_progress += delay;
    for (Member& member : job->members) {
      if (member.last_progress.has_value()) *member.last_progress += delay;
    }
    ExtendDeadlines(job->stage, delay);
    job->suspicions.deadline += delay;
    ExtendProbing(*job, delay);
    job->growth.rehearsal_deadline += delay;
    job->reattach_deadline += delay;
    job->absence.return_deadline += delay;
    ExtendWaitForHolders(*job, delay);
  }
}

}  // namespace ringmaster::coordinator
