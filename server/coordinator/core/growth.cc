#include "server/coordinator/core/growth.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/coordinator/core/halt.h"
#include "server/coordinator/core/incident.h"
#include "server/coordinator/core/rendezvous.h"
#include "server/coordinator/core/verdict.h"

namespace ringmaster::coordinator {
namespace {

constexpr absl::Duration kMaxBackoff = absl::Minutes(1);

bool HasCommitted(const Job& job) { return job.best_step > job.resume_step; }

bool HasNewcomer(const Job& job) {
  return std::any_of(job.members.begin(), job.members.end(),
                     [](const Member& member) { return member.is_newcomer; });
}

// All members that it began with are at work.
bool IsWhole(const Job& job) {
  return std::none_of(job.members.begin(), job.members.end(),
                      [](const Member& member) {
                        return member.is_lost || member.finished.has_value();
                      });
}

size_t RoomIn(const Job& job) {
  return static_cast<size_t>(job.max_workers) - job.members.size();
}

// It may grow at some time in its present generation.
bool CanGrow(const Job& job) {
  return job.state == JobState::kRunning && !job.ending.has_value() &&
         static_cast<int>(job.members.size()) < job.max_workers &&
         !IsPausing(job) && IsWhole(job) && job.best_step + 1 < job.total_steps;
}

// An interruption now would not fall upon another one.
bool IsCalm(const Turn& turn, const Job& job) {
  return HasCommitted(job) && OpenIncident(job) == nullptr &&
         job.suspicions.empty() && turn.state.journal_error.empty() &&
         job.reattach_deadline == MonotonicTime::InfiniteFuture();
}

// What a step may take, and a worker to be found dead.
absl::Duration PausePatience(const Turn& turn, const Job& job) {
  return std::max(turn.config.lease, std::min(2 * job.figures.step_duration,
                                              turn.config.progress_cap));
}

// "workers c, d join: 2 -> 4 ranks"; hundreds are cut short.
std::string JoinText(const State& state, const Job& job) {
  constexpr size_t kMostShown = 8;
  const std::vector<const Worker*> idle =
      PackedIdleWorkers(state, Hosts::kSound);
  const size_t count = std::min(idle.size(), RoomIn(job));
  if (count == 0) return "the workers that were to join have gone";
  std::string names;
  for (size_t i = 0; i < std::min(count, kMostShown); ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ", ", idle[i]->name);
  }
  return absl::StrCat(count == 1 ? "worker " : "workers ", names,
                      count > kMostShown ? ", ..." : "",
                      count == 1 ? " joins: " : " join: ", job.members.size(),
                      " -> ", job.members.size() + count, " ranks");
}

}  // namespace

void ArmGrowth(Turn& turn, Job& job) {
  job.growth_deadline = MonotonicTime::InfiniteFuture();
  if (HasNewcomer(job) && HasCommitted(job)) {
    job.growth_backoff = absl::ZeroDuration();
    job.growth_not_before = MonotonicTime();
  }
  if (!CanGrow(job) || IdleCount(turn.state, Hosts::kSound) == 0) return;
  job.growth_deadline = std::max(
      LastIdleJoin(turn.state, Hosts::kSound) + turn.config.join_settle,
      job.growth_not_before);
}

void OnGrowthDeadline(Turn& turn, Job& job) {
  ArmGrowth(turn, job);
  if (job.growth_deadline > turn.now) return;
  if (!IsCalm(turn, job)) {
    job.growth_deadline = turn.now + turn.config.join_settle;
    return;
  }
  job.growth_deadline = MonotonicTime::InfiniteFuture();
  job.paused_generation = job.generation;
  job.pause_deadline = turn.now + PausePatience(turn, job);
  const std::string why = JoinText(turn.state, job);
  job.message = absl::StrCat("pauses at the next step: ", why);
  turn.Touch(job);
  for (const Member& member : job.members) {
    const Worker& worker = *turn.state.FindWorker(member.identity.worker);
    if (worker.session == 0) continue;
    turn.Do(SendPause{worker.session, job.generation, why});
  }
  turn.Emit(EventSeverity::kInfo, "job.pausing", job, "", why);
}

Verdict VerdictOnGrowth(const Turn& turn, const Job& job) {
  Verdict verdict = VerdictOnNobody(job, JoinText(turn.state, job), turn.time);
  verdict.evidence.push_back({EvidenceKind::kJoined,
                              std::string(kCoordinatorObserver),
                              verdict.summary});
  return verdict;
}

void OnPauseDeadline(Turn& turn, Job& job) {
  job.pause_deadline = MonotonicTime::InfiniteFuture();
  // Who has done all steps does not pause, and the others are about to.
  if (job.state != JobState::kRunning || job.ending.has_value() ||
      !IsWhole(job)) {
    return;
  }
  Verdict verdict = VerdictOnGrowth(turn, job);
  absl::StrAppend(&verdict.summary, " (nobody paused within ",
                  absl::FormatDuration(PausePatience(turn, job)), ")");
  BeginHalt(turn, job, HaltIntent::kReform, std::move(verdict));
}

void NoteGrowthHalted(const Turn& turn, Job& job) {
  job.growth_deadline = MonotonicTime::InfiniteFuture();
  job.pause_deadline = MonotonicTime::InfiniteFuture();
  if (!HasNewcomer(job) || HasCommitted(job)) return;
  job.growth_backoff =
      std::clamp(2 * job.growth_backoff, turn.config.join_settle, kMaxBackoff);
  job.growth_not_before = turn.now + job.growth_backoff;
}

}  // namespace ringmaster::coordinator
