#include "server/coordinator/core/life/growth.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"
#include "server/coordinator/core/account/incident.h"
#include "server/coordinator/core/account/verdict.h"
#include "server/coordinator/core/life/halt.h"
#include "server/coordinator/core/life/hand_over.h"
#include "server/coordinator/core/life/let_go.h"
#include "server/coordinator/core/life/rehearsal.h"
#include "server/coordinator/core/life/scheduler.h"
#include "server/coordinator/core/life/silence.h"
#include "server/coordinator/core/placement/host_spread.h"
#include "server/coordinator/core/placement/idle_pool.h"

namespace ringmaster::coordinator {
namespace {

constexpr absl::Duration kMaxBackoff = absl::Minutes(1);

bool HasCommitted(const Job& job) { return job.best_step > job.resume_step; }

bool HasNewcomer(const Job& job) {
  return std::any_of(job.members.begin(), job.members.end(),
                     [](const Member& member) { return member.is_newcomer; });
}

// Returns true if all members that it began with are at work.
bool IsWhole(const Job& job) {
  return std::none_of(job.members.begin(), job.members.end(),
                      [](const Member& member) {
                        return member.is_lost || member.finished.has_value();
                      });
}

// Returns true if `job` lets that member go; others that leave pause the job
// themselves.
bool IsLetGo(const State& state, const Member& member) {
  const Worker* const worker = state.FindWorker(member.identity.worker);
  return !member.is_lost && worker != nullptr && worker->is_let_go;
}

int LetGoCount(const State& state, const Job& job, v1::Role role) {
  return static_cast<int>(std::count_if(
      job.members.begin(), job.members.end(), [&](const Member& member) {
        return member.identity.role == role && IsLetGo(state, member);
      }));
}

// Returns how many members of that role count. A worker that leaves trains until
// the pause; the place of one that is let go may be taken.
int CountIn(const State& state, const Job& job, v1::Role role, int let_go) {
  if (role != v1::ROLE_WORKER) return StayingCount(state, job, role);
  return MemberCount(job, role) - let_go;
}

// Returns how many more of that role the job takes.
int RoomIn(const State& state, const Job& job, v1::Role role) {
  // Commands take part from their beginning.
  if (job.gives_way.has_value() || job.runs_commands ||
      MostCount(job, role) == 0) {
    return 0;
  }
  const int let_go = LetGoCount(state, job, role);
  // While others lack workers, nobody takes the place of one that is let go.
  const int most = role == v1::ROLE_WORKER ? MostWorkers(state, job, let_go)
                                           : MostCount(job, role);
  return std::max(0, most - CountIn(state, job, role, let_go));
}

// Returns the workers of `idle` that are to join in that role, as many as there is
// room for.
std::vector<const Worker*> Joining(const State& state, const Job& job,
                                   v1::Role role, const IdlePool& idle,
                                   Hosts hosts) {
  std::vector<const Worker*> joining = idle.Packed(hosts);
  const auto room = static_cast<size_t>(RoomIn(state, job, role));
  if (joining.size() > room) joining.resize(room);
  return joining;
}

// Those that could join in a role.
struct Joiners {
  bool is_anybody = false;
  // When the last of them came; nullopt if there is none, or those that are to
  // join are not ready.
  std::optional<MonotonicTime> last = std::nullopt;
};

Joiners JoinersOf(const State& state, const Job& job, v1::Role role) {
  if (RoomIn(state, job, role) == 0) return {};
  const IdlePool idle(state, job, role);
  const std::vector<const Worker*> joining =
      Joining(state, job, role, idle, Hosts::kSound);
  Joiners joiners = {.is_anybody = !joining.empty()};
  const bool is_waiting =
      std::any_of(joining.begin(), joining.end(), [](const Worker* worker) {
        return worker->rehearsal.has_value() && !worker->rehearsal->is_ready;
      });
  if (joiners.is_anybody && !is_waiting) {
    joiners.last = idle.LastJoin(Hosts::kSound);
  }
  return joiners;
}

// Returns true if it may pause at some time in its present generation. What a command
// does is one step, within which it can be asked to end.
bool CanPause(const Job& job) {
  const int64_t next = job.best_step + (job.runs_commands ? 0 : 1);
  return job.state() == v1::JOB_STATE_RUNNING && !job.ending.has_value() &&
         !IsPausing(job) && IsWhole(job) && next < job.total_steps;
}

// Returns true if an interruption now would not coincide with another one.
bool IsCalm(const Turn& turn, const Job& job) {
  return (HasCommitted(job) || job.runs_commands) &&
         OpenIncident(job) == nullptr && job.suspicions.reports.empty() &&
         turn.state.journal_error.empty() &&
         job.reattach_deadline == MonotonicTime::InfiniteFuture() &&
         std::none_of(turn.state.workers.begin(), turn.state.workers.end(),
                      [&job](const auto& entry) {
                        // It would not answer.
                        return entry.second.job_id == job.id &&
                               entry.second.is_cut_off;
                      });
}

// Returns true if members go for whom it waits for no preparation of others.
bool IsInHaste(const State& state, const Job& job) {
  return HasLeavingHolder(state, job) || HasToLetDueGo(state, job);
}

// "workers c, d join: 2 -> 4 ranks", "parameter server s joins: 1 -> 2
// servers"; empty if none does, hundreds are cut short.
std::string JoinText(const State& state, const Job& job, v1::Role role) {
  std::vector<std::string> names;
  for (const Worker* const worker :
       Joining(state, job, role, IdlePool(state, job, role), Hosts::kReady)) {
    names.push_back(worker->name);
  }
  if (names.empty()) return "";
  const int before = role == v1::ROLE_WORKER ? MemberCount(job, role)
                                             : StayingCount(state, job, role);
  return absl::StrCat(
      NamesText(role, names),
      names.size() == 1 ? " joins: " : " join: ", before, " -> ",
      CountIn(state, job, role, LetGoCount(state, job, role)) + names.size(),
      role == v1::ROLE_WORKER ? " ranks" : " servers");
}

// Says which members leave, and which workers join.
std::string PauseText(const State& state, const Job& job) {
  std::string text = LeaveText(state, job);
  for (const v1::Role role : {v1::ROLE_WORKER, v1::ROLE_PARAMETER_SERVER}) {
    const std::string joins = JoinText(state, job, role);
    absl::StrAppend(&text, text.empty() || joins.empty() ? "" : "; ", joins);
  }
  return text.empty() ? "the workers that were to join have gone" : text;
}

}  // namespace

absl::Duration PausePatience(const Job& job, const Config& config) {
  return std::max(config.lease,
                  std::min(2 * FromProto(job.figures.step_duration()),
                           config.progress_cap));
}

void ArmGrowth(Turn& turn, Job& job, const std::vector<Gift>& gifts) {
  auto* const running = std::get_if<stage::Running>(&job.stage);
  if (running != nullptr) running->growth_deadline = kNever;
  if (HasNewcomer(job) && HasCommitted(job)) {
    job.growth.backoff = absl::ZeroDuration();
    job.growth.not_before = MonotonicTime();
  }
  if (running == nullptr || !CanPause(job)) return;
  LetMembersGo(turn.state, job, gifts);
  if (IsInHaste(turn.state, job)) {
    running->growth_deadline = turn.now;
    return;
  }
  const Joiners workers = JoinersOf(turn.state, job, v1::ROLE_WORKER);
  const Joiners servers = JoinersOf(turn.state, job, v1::ROLE_PARAMETER_SERVER);
  if (!workers.last.has_value() && !servers.last.has_value()) {
    if (!workers.is_anybody &&
        LetGoCount(turn.state, job, v1::ROLE_WORKER) > 0) {
      running->growth_deadline = std::max(turn.now, job.growth.not_before);
    }
    return;
  }
  const MonotonicTime last = std::max(workers.last.value_or(MonotonicTime()),
                                      servers.last.value_or(MonotonicTime()));
  running->growth_deadline =
      std::max(last + turn.config.join_settle, job.growth.not_before);
}

void EndNeedlessRehearsals(Turn& turn) {
  std::set<Job*> without_room;
  for (const auto& [name, worker] : turn.state.workers) {
    if (!worker.rehearsal.has_value()) continue;
    Job* const job = turn.state.FindJob(worker.rehearsal->job_id);
    if (job != nullptr && job->state() == v1::JOB_STATE_RUNNING &&
        !job->ending.has_value() && !IsPausing(*job) &&
        (RoomIn(turn.state, *job, v1::ROLE_WORKER) == 0 ||
         !HostSpread::Beside(turn.state, *job).HasRoomFor(worker))) {
      without_room.insert(job);
    }
  }
  for (Job* const job : without_room) {
    EndRehearsals(turn, *job,
                  absl::StrCat("job ", job->id, " takes no more workers now"));
  }
}

void OnGrowthDeadline(Turn& turn, Job& job) {
  ArmGrowth(turn, job, Gifts(turn.state));
  auto& running = std::get<stage::Running>(job.stage);
  if (running.growth_deadline > turn.now) return;
  if (!IsCalm(turn, job)) {
    running.growth_deadline = turn.now + turn.config.join_settle;
    return;
  }
  running.growth_deadline = kNever;
  if (!IsInHaste(turn.state, job) &&
      !Rehearse(turn, job,
                Joining(turn.state, job, v1::ROLE_WORKER,
                        IdlePool(turn.state, job), Hosts::kSound))) {
    return;  // Goes on once they are ready.
  }
  job.growth.paused_generation = job.generation;
  std::get<stage::Running>(job.stage).pause_deadline =
      turn.now + PausePatience(job, turn.config);
  const std::string why = PauseText(turn.state, job);
  job.message =
      absl::StrCat(job.runs_commands ? "its commands are asked to end: "
                                     : "pauses at the next step: ",
                   why);
  turn.Touch(job);
  std::vector<SendPause> pauses;
  for (const Member& member : job.members) {
    // Parameter servers end with the workers.
    if (member.identity.role != v1::ROLE_WORKER) continue;
    const Worker& worker = *turn.state.FindWorker(member.identity.worker);
    if (worker.session == 0) continue;
    pauses.push_back({worker.session, job.generation, why,
                      IsLeaver(turn.state, job, member)});
  }
  const auto leavers = std::ranges::count(pauses, true, &SendPause::leaves);
  for (SendPause& pause : pauses) {
    pause.leavers = static_cast<int>(leavers);
    turn.Do(std::move(pause));
  }
  turn.Emit(v1::EVENT_SEVERITY_INFO, "job.pausing", job, "", why);
}

v1::Verdict VerdictOnPause(const Turn& turn, const Job& job) {
  v1::Verdict verdict =
      VerdictOnNobody(job, PauseText(turn.state, job), turn.time);
  AddEvidence(EvidenceOf(HasLeaver(turn.state, job) ? v1::EVIDENCE_KIND_LEFT
                                                    : v1::EVIDENCE_KIND_JOINED,
                         kCoordinatorObserver, verdict.summary()),
              verdict);
  return verdict;
}

void OnPauseDeadline(Turn& turn, Job& job) {
  auto& running = std::get<stage::Running>(job.stage);
  running.pause_deadline = kNever;
  // A member that has done all steps does not pause, and the others are about
  // to finish.
  if (job.ending.has_value() || !IsWhole(job)) return;
  // Members of which nothing is heard answer no halt either: they would be given up
  // for a silence that may be the coordinator's own.
  if (AreMostSilent(turn)) {
    running.pause_deadline = turn.now + PausePatience(job, turn.config);
    return;
  }
  v1::Verdict verdict = VerdictOnPause(turn, job);
  absl::StrAppend(verdict.mutable_summary(), " (nobody paused within ",
                  absl::FormatDuration(PausePatience(job, turn.config)), ")");
  BeginHalt(turn, job, HaltIntent::kReform, std::move(verdict));
}

void NoteGrowthHalted(const Turn& turn, Job& job) {
  if (!HasNewcomer(job) || HasCommitted(job) || job.closing != Closing::kNone) {
    return;
  }
  job.growth.backoff =
      std::clamp(2 * job.growth.backoff, turn.config.join_settle, kMaxBackoff);
  job.growth.not_before = turn.now + job.growth.backoff;
}

}  // namespace ringmaster::coordinator
