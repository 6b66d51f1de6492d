#include "server/coordinator/core/life/deadlines.h"

#include <algorithm>

#include "server/coordinator/core/life/absence.h"
#include "server/coordinator/core/life/broken_links.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/growth.h"
#include "server/coordinator/core/life/halt.h"
#include "server/coordinator/core/life/hand_over.h"
#include "server/coordinator/core/life/membership.h"
#include "server/coordinator/core/life/other_coordinator.h"
#include "server/coordinator/core/life/progress.h"
#include "server/coordinator/core/life/quarantine.h"
#include "server/coordinator/core/life/rebuild.h"
#include "server/coordinator/core/life/rehearsal.h"
#include "server/coordinator/core/life/training.h"
#include "server/coordinator/core/state/formed.h"

namespace ringmaster::coordinator {

MonotonicTime EarliestDeadline(const State& state) {
  if (state.is_shutting_down) return MonotonicTime::InfiniteFuture();
  const Job* const job = state.ActiveJob();
  if (job == nullptr || IsOutdated(state)) {
    return std::min({state.lease_check, state.quarantine_check,
                     state.rebuilding.has_value()
                         ? state.rebuilding->deadline
                         : MonotonicTime::InfiniteFuture()});
  }
  return std::min(
      {state.lease_check, state.quarantine_check, job->gang_deadline,
       job->link_check, job->growth_deadline, job->rehearsal_deadline,
       job->pause_deadline, job->halt_deadline, job->stop_deadline,
       job->suspicion_deadline, job->reattach_deadline, job->return_deadline,
       job->holders_deadline, job->hand_over_deadline, ProgressDeadline(*job)});
}

// The order matters if several are due: the best explanation of an incident
// comes first. Each action may end the job's state, and with it the other
// deadlines, so the job is looked up again.
void ActOnDeadlines(Turn& turn) {
  if (turn.state.lease_check <= turn.now) ExpireLeases(turn);
  if (turn.state.rebuilding.has_value() &&
      turn.state.rebuilding->deadline <= turn.now) {
    OnRebuildDeadline(turn);
  }
  if (IsOutdated(turn.state)) {
    HoldDeadlines(turn);
    if (turn.state.quarantine_check <= turn.now) OnQuarantineCheck(turn);
    return;
  }
  const auto due = [&turn](MonotonicTime Job::*deadline) -> Job* {
    Job* const job = turn.state.ActiveJob();
    return job != nullptr && job->*deadline <= turn.now ? job : nullptr;
  };
  if (Job* const job = turn.state.ActiveJob()) LoseEnded(turn, *job);
  if (Job* const job = due(&Job::reattach_deadline)) {
    OnReattachDeadline(turn, *job);
  }
  if (Job* const job = turn.state.ActiveJob()) HastenSuspicions(turn, *job);
  if (Job* const job = due(&Job::suspicion_deadline)) {
    OnSuspicionDeadline(turn, *job);
  }
  if (Job* const job = due(&Job::halt_deadline)) OnHaltDeadline(turn, *job);
  if (Job* const job = due(&Job::return_deadline)) OnReturnDeadline(turn, *job);
  if (Job* const job = due(&Job::holders_deadline)) {
    OnHoldersDeadline(turn, *job);
  }
  if (Job* const job = due(&Job::hand_over_deadline)) {
    OnHandOverDeadline(turn, *job);
  }
  if (Job* const job = due(&Job::stop_deadline)) OnStopDeadline(turn, *job);
  if (Job* const job = due(&Job::pause_deadline)) OnPauseDeadline(turn, *job);
  if (turn.state.quarantine_check <= turn.now) OnQuarantineCheck(turn);
  if (Job* const job = due(&Job::link_check)) OnLinkCheck(turn, *job);
  if (due(&Job::gang_deadline) != nullptr) TryGather(turn);
  if (Job* const job = due(&Job::rehearsal_deadline)) {
    OnRehearsalDeadline(turn, *job);
  }
  if (Job* const job = due(&Job::growth_deadline)) {
    OnGrowthDeadline(turn, *job);
  }
  Job* const job = turn.state.ActiveJob();
  if (job != nullptr && ProgressDeadline(*job) <= turn.now) {
    OnProgressDeadline(turn, *job);
  }
}

void AwaitFirstWorker(Turn& turn) {
  const Job* const job = turn.state.ActiveJob();
  if (job == nullptr ||
      job->reattach_deadline == MonotonicTime::InfiniteFuture() ||
      job->cancel_reason.has_value() || !turn.state.sessions.empty()) {
    return;
  }
  const absl::Duration waited =
      turn.now + turn.config.reattach_budget - job->reattach_deadline;
  if (waited > absl::ZeroDuration()) ExtendDeadlines(turn.state, waited);
}

void ExtendDeadlines(State& state, absl::Duration delay) {
  for (auto& [name, worker] : state.workers) {
    worker.last_heard += delay;
    if (worker.rehearsal.has_value()) worker.rehearsal->deadline += delay;
  }
  state.lease_check += delay;
  if (state.rebuilding.has_value()) state.rebuilding->deadline += delay;
  Job* const job = state.ActiveJob();
  if (job == nullptr) return;
  job->last_progress += delay;
  for (Member& member : job->members) {
    if (member.last_progress.has_value()) *member.last_progress += delay;
  }
  job->halt_deadline += delay;
  job->stop_deadline += delay;
  job->suspicion_deadline += delay;
  job->pause_deadline += delay;
  job->rehearsal_deadline += delay;
  job->reattach_deadline += delay;
  job->return_deadline += delay;
}

}  // namespace ringmaster::coordinator
