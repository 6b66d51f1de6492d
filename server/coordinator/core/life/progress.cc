#include "server/coordinator/core/life/progress.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/coordinator/core/account/verdict.h"
#include "server/coordinator/core/life/growth.h"
#include "server/coordinator/core/life/halt.h"
#include "server/coordinator/core/life/membership.h"
#include "server/coordinator/core/life/training.h"

namespace ringmaster::coordinator {
namespace {

// A stop is not cut short as long as members make progress, and neither is a pause for
// which commands are to end.
void ExtendStop(const Turn& turn, Job& job) {
  if (auto* const stopping = std::get_if<stage::Stopping>(&job.stage)) {
    stopping->deadline =
        std::max(stopping->deadline, turn.now + StopPatience(job, turn.config));
  }
  auto* const running = std::get_if<stage::Running>(&job.stage);
  if (running != nullptr && job.runs_commands && IsPausing(job)) {
    running->pause_deadline = std::max(
        running->pause_deadline, turn.now + PausePatience(job, turn.config));
  }
}

// Learns from the time that the member took to make progress; `worker` is as it
// was before this beat. Work that a halt cut short teaches nothing.
void Learn(const Turn& turn, Job& job, const Worker& worker, Member& member,
           const BeatReceived& beat, bool gets_on) {
  if (beat.phase == v1::PHASE_HALTED || job.state() == v1::JOB_STATE_HALTING)
    return;
  if (!member.last_progress.has_value()) {
    member.last_progress = turn.now;  // There is no telling since when.
  } else if (gets_on) {
    job.progress.Observe(worker.phase, turn.now - *member.last_progress,
                         MemberCount(job, v1::ROLE_WORKER), turn.now);
    member.last_progress = turn.now;
  }
  // Rounds of the step are those that are applied.
  if (beat.phase != worker.phase && worker.phase != v1::PHASE_STEP) {
    job.progress.NoteRound(worker.phase);
  }
}

// Returns where each rank stands, for a verdict; a table of thousands is cut
// short.
std::string Standings(const State& state, const Job& job) {
  constexpr int kMostShown = 8;
  std::string text;
  int shown = 0;
  for (const Member& member : job.members) {
    if (member.is_lost) continue;
    if (++shown > kMostShown) return absl::StrCat(text, ", ...");
    const Worker& worker = *state.FindWorker(member.identity.worker);
    absl::StrAppend(&text, text.empty() ? "" : ", ", "rank ",
                    member.identity.rank, " at step ", worker.step,
                    " collective ", worker.collective_sequence);
    if (worker.waiting_for_rank >= 0) {
      absl::StrAppend(&text, " waits for rank ", worker.waiting_for_rank);
    }
  }
  return text;
}

bool HasLostMember(const Job& job) {
  return std::any_of(job.members.begin(), job.members.end(),
                     [](const Member& member) { return member.is_lost; });
}

// It has done its part, so nobody waits for it.
bool IsDone(const Job& job, const Member& member) {
  return member.finished.has_value() ||
         (job.state() == v1::JOB_STATE_PREPARING &&
          member.prepared.has_value());
}

// A lost member gives nothing any more: whoever waits for it waits in vain.
bool IsLost(const Job& job, int rank) {
  return rank >= 0 && rank < static_cast<int>(job.members.size()) &&
         job.members[rank].is_lost;
}

// By rank: the rank that it waits for, -1 for none.
std::vector<int> WaitsOf(const State& state, const Job& job) {
  std::vector<int> waits(job.members.size(), -1);
  for (const Member& member : job.members) {
    if (member.is_lost) continue;
    const int rank = state.FindWorker(member.identity.worker)->waiting_for_rank;
    if (rank < static_cast<int>(job.members.size())) {
      waits[member.identity.rank] = std::max(rank, -1);
    }
  }
  return waits;
}

// By rank: how many others wait for it, directly or through others.
std::vector<int> WaitingCounts(const std::vector<int>& waits) {
  const int world_size = static_cast<int>(waits.size());
  std::vector<int> counts(waits.size(), 0);
  for (int from = 0; from < world_size; ++from) {
    int at = waits[from];
    for (int hops = 0; at >= 0 && at != from && hops < world_size; ++hops) {
      ++counts[at];
      at = waits[at];
    }
  }
  return counts;
}

// Returns true if `rank` waits for itself in the end.
bool IsInCircle(const std::vector<int>& waits, int rank) {
  int at = waits[rank];
  for (size_t hops = 0; at >= 0 && at != rank && hops < waits.size(); ++hops) {
    at = waits[at];
  }
  return at == rank;
}

}  // namespace

void NoteProgress(const Turn& turn, Job& job) {
  job.last_progress = turn.now;
  ExtendStop(turn, job);
}

void NoteSigns(const Turn& turn, Job& job, Worker& worker, Member& member,
               const BeatReceived& beat) {
  const bool advances = beat.step > worker.step || beat.phase != worker.phase ||
                        beat.collective_sequence > worker.collective_sequence;
  const bool uses_disk = beat.disk_bytes > worker.disk_bytes;
  if (advances || (uses_disk && beat.waiting_for_rank < 0)) {
    NoteProgress(turn, job);
  } else if (uses_disk) {
    // It writes a checkpoint while it waits for a peer, which may be stuck.
    ExtendStop(turn, job);
  }
  Learn(turn, job, worker, member, beat, advances || uses_disk);
  // A worker that waits now no longer explains why nobody makes progress.
  // Checking all members at each beat would cost their number squared.
  const MonotonicTime earliest =
      job.last_progress +
      (IsLost(job, beat.waiting_for_rank)
           ? turn.config.failure_budget
           : job.progress.LeastPatience(MemberCount(job, v1::ROLE_WORKER),
                                        turn.config.failure_budget,
                                        turn.config.progress_cap));
  job.progress_check =
      std::min(job.progress_check,
               std::max(earliest, turn.now + turn.config.beat_interval));
}

MonotonicTime ProgressDeadline(const Job& job) {
  const bool is_watched =
      job.state() == v1::JOB_STATE_RUNNING ||
      (job.state() == v1::JOB_STATE_PREPARING && job.is_assigned);
  if (!is_watched || job.ending.has_value() ||
      job.reattach_deadline != MonotonicTime::InfiniteFuture()) {
    return MonotonicTime::InfiniteFuture();
  }
  // A peer's report explains the standstill better, and leads to a halt.
  if (job.suspicions.deadline != MonotonicTime::InfiniteFuture()) {
    return MonotonicTime::InfiniteFuture();
  }
  return job.progress_check;
}

absl::Duration ProgressPatience(const State& state, const Job& job,
                                const Config& config) {
  // A member that is cut off from a neighbour notices by itself, and gets the
  // time for that.
  const absl::Duration link_patience = std::min(
      config.connect_timeout + config.suspicion_grace, config.progress_cap);
  absl::Duration working = absl::ZeroDuration();
  absl::Duration waiting = absl::ZeroDuration();
  bool is_lost_awaited = false;
  const std::vector<int> waits = WaitsOf(state, job);
  const std::set<int> awaited(waits.begin(), waits.end());
  for (const Member& member : job.members) {
    // A server that nobody waits for has nothing to do.
    const bool is_unneeded =
        member.identity.role == v1::ROLE_PARAMETER_SERVER &&
        !awaited.contains(member.identity.rank);
    if (member.is_lost || IsDone(job, member) || is_unneeded) continue;
    const Worker& worker = *state.FindWorker(member.identity.worker);
    absl::Duration& longest = worker.waiting_for_rank < 0 ? working : waiting;
    is_lost_awaited |= IsLost(job, worker.waiting_for_rank);
    longest = std::max(
        longest,
        job.progress.Patience(worker.phase, MemberCount(job, v1::ROLE_WORKER),
                              config.failure_budget, config.progress_cap));
    if (worker.phase == v1::PHASE_CONNECT) {
      longest = std::max(longest, link_patience);
    }
  }
  if (working > absl::ZeroDuration()) return working;
  if (is_lost_awaited) return config.failure_budget;
  return waiting > absl::ZeroDuration() ? std::max(waiting, link_patience)
                                        : config.progress_cap;
}

void OnProgressDeadline(Turn& turn, Job& job) {
  const absl::Duration patience =
      ProgressPatience(turn.state, job, turn.config);
  job.progress_check = job.last_progress + patience;
  if (turn.now < job.progress_check) return;
  // The lost member was thought to be no longer needed (see GoesOnWithout), but
  // some member still waits and cannot say for whom.
  if (job.state() == v1::JOB_STATE_RUNNING && HasLostMember(job)) {
    BeginHalt(turn, job, HaltIntent::kReform, *job.verdict);
    return;
  }
  // If the job continues without the stuck member, the others get a new term: a
  // member that waited for it can still report that.
  job.last_progress = turn.now;
  const Member& stuck = FindStuckMember(turn.state, job);
  Evict(turn, stuck.identity.worker,
        EvidenceOf(v1::EVIDENCE_KIND_NO_PROGRESS, kCoordinatorObserver,
                   absl::StrCat("no member made progress for ",
                                absl::FormatDuration(absl::Trunc(
                                    patience, absl::Milliseconds(1))),
                                ": ", Standings(turn.state, job))));
}

std::vector<int> WaitsInVain(const Turn& turn, const Job& job,
                             absl::Duration least) {
  const std::vector<int> waits = WaitsOf(turn.state, job);
  std::vector<int> in_vain(waits.size(), -1);
  // By rank, once it is known: whether a worker at work holds it up.
  std::vector<std::optional<bool>> is_held_up(waits.size());
  for (const Member& member : job.members) {
    const int rank = member.identity.rank;
    if (waits[rank] < 0 || !member.last_progress.has_value() ||
        turn.now - *member.last_progress < least) {
      continue;
    }
    int end = rank;
    std::vector<int> way;
    while (!is_held_up[end].has_value()) {
      way.push_back(end);
      if (waits[end] < 0) {
        is_held_up[end] = job.members[end].identity.role == v1::ROLE_WORKER;
      } else {
        is_held_up[end] = false;  // unless the way leads on to such a worker
        end = waits[end];
      }
    }
    for (const int passed : way) is_held_up[passed] = is_held_up[end];
    if (!*is_held_up[rank]) in_vain[rank] = waits[rank];
  }
  return in_vain;
}

const Member& FindStuckMember(const State& state, const Job& job) {
  const std::vector<int> waits = WaitsOf(state, job);
  const std::vector<int> waiting_counts = WaitingCounts(waits);
  // A server makes no collectives: nothing to compare with those of workers.
  const auto sequence_of = [&](const Member& member) {
    return member.identity.role == v1::ROLE_PARAMETER_SERVER
               ? std::numeric_limits<int64_t>::max()
               : state.FindWorker(member.identity.worker)->collective_sequence;
  };
  using Rating = std::tuple<bool, bool, int, bool, int64_t, int>;
  const Member* stuck = nullptr;
  Rating lowest;
  for (const Member& member : job.members) {
    if (member.is_lost) continue;
    const int rank = member.identity.rank;
    const int wait = waits[rank] < 0 ? 0 : IsInCircle(waits, rank) ? 1 : 2;
    // It waits for a worker that has gone further, and so has sent what it waits
    // for: that does not arrive.
    const bool is_cut_off =
        waits[rank] >= 0 && !job.members[waits[rank]].is_lost &&
        job.members[waits[rank]].identity.role == v1::ROLE_WORKER &&
        sequence_of(job.members[waits[rank]]) > sequence_of(member);
    // It takes no part in collectives, so only the members that wait for it
    // show that it is behind.
    const bool is_unneeded =
        member.identity.role == v1::ROLE_PARAMETER_SERVER &&
        waiting_counts[rank] == 0;
    const Rating rating(IsDone(job, member), is_unneeded, wait, !is_cut_off,
                        sequence_of(member), -waiting_counts[rank]);
    if (stuck != nullptr && rating >= lowest) continue;
    stuck = &member;
    lowest = rating;
  }
  return *stuck;
}

}  // namespace ringmaster::coordinator
