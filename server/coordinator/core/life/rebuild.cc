#include "server/coordinator/core/life/rebuild.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status/exit_code.h"
#include "server/coordinator/core/account/goodput.h"
#include "server/coordinator/core/life/absence.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/job_end.h"
#include "server/coordinator/core/life/message_bounds.h"
#include "server/coordinator/core/life/take_over.h"
#include "server/coordinator/core/state/formed.h"

namespace ringmaster::coordinator {
namespace {

// The number of messages kept of one member: more than it can have to say.
constexpr size_t kMaxKeptPerRank = 8;

// N of "name-N"; 0 if the id is another.
int64_t NumberOf(const State& state, const HeldJob& held) {
  const std::string prefix = held.name + "-";
  if (held.job_id.compare(0, prefix.size(), prefix) != 0) return 0;
  int64_t number = 0;
  const std::string digits = held.job_id.substr(prefix.size());
  if (!absl::SimpleAtoi(digits, &number) || number <= 0 ||
      number > state.last_job_number + kMaxNumberJump ||
      absl::StrCat(number) != digits) {
    return 0;
  }
  return number;
}

// Another job has a generation, so its members may be at work.
bool HasOtherRunning(const State& state, const std::string& id) {
  return std::any_of(
      state.jobs.begin(), state.jobs.end(), [&](const auto& entry) {
        const Job& job = entry.second;
        return job.id != id && !IsEnded(job.state) && job.first_generation != 0;
      });
}

// Returns true if the worker reports the job known by that id, and not one to
// which another coordinator gave the same id.
bool IsSameJob(const Job& job, const HeldJob& held) {
  return held.spec == job.spec && held.min_workers == job.min_workers &&
         held.max_workers == job.max_workers &&
         held.total_steps == job.total_steps;
}

// Returns true if the state allows the job's generation to be taken over.
bool CanTakeOver(State& state, const HeldJob& held, int64_t generation) {
  const int64_t number = NumberOf(state, held);
  // Some may be leaving, and be members only to hand over what they hold.
  if (number == 0 || held.world_size > 2 * held.max_workers ||
      held.servers > 2 * held.sharding.servers ||
      generation <= state.last_recorded_generation ||
      HasOtherRunning(state, held.job_id)) {
    return false;
  }
  const Job* const job = state.FindJob(held.job_id);
  if (job == nullptr) return number > state.last_job_number;
  if (IsEnded(job->state) || job->ending.has_value() ||
      !IsSameJob(*job, held)) {
    return false;
  }
  switch (job->state) {
    case v1::JOB_STATE_QUEUED:
      return true;
    case v1::JOB_STATE_GATHERING:
      // A generation that this coordinator has formed itself is the newest.
      return IsNew(*job) || job->is_recovered;
    default:
      // Once its members have had their time to return, the known generation
      // counts.
      return job->is_recovered &&
             job->reattach_deadline != MonotonicTime::InfiniteFuture();
  }
}

// No worker is in the known generation of the active job. The job waits in the
// queue until it is clear which generation is the newest. `reporter` is another
// generation's.
void Suspend(Turn& turn, std::string_view reporter) {
  Job* const job = turn.state.ActiveJob();
  if (job == nullptr) return;
  Account(*job, turn.now);
  for (const Member& member : job->members) {
    const auto it = turn.state.workers.find(member.identity.worker);
    if (it == turn.state.workers.end() || member.is_lost ||
        it->first == reporter) {
      continue;
    }
    if (it->second.session == 0) {
      turn.state.workers.erase(it);
    } else {
      Release(turn, it->second, v1::JOB_STATE_FAILED,
              absl::StrCat("a member reported a newer generation than ",
                           job->generation));
    }
  }
  job->members.clear();
  DropAll(turn, *job);
  job->state = v1::JOB_STATE_QUEUED;
  job->halt_intent = HaltIntent::kReform;
  ForgetSuspicions(*job);
  ClearDeadlines(*job);
  job->message = IsNew(*job)
                     ? "waits for the jobs before it"
                     : "waits for the workers that tell of a newer generation";
  turn.state.active_job = 0;
  turn.Touch(*job);
}

int ReporterCount(State& state) {
  int count = 0;
  for (const auto& [rank, name] : state.rebuilding->workers) {
    if (ReporterOf(state, rank) != nullptr) ++count;
  }
  return count;
}

// All but `kept`.
void ReleaseReporters(Turn& turn, std::string_view kept,
                      const std::string& why) {
  for (const auto& [rank, name] : turn.state.rebuilding->workers) {
    Worker* const worker = ReporterOf(turn.state, rank);
    if (worker != nullptr && name != kept)
      Release(turn, *worker, v1::JOB_STATE_FAILED, why);
  }
}

void GiveUp(Turn& turn) {
  ReleaseReporters(
      turn, /*kept=*/"",
      absl::StrCat("job ", turn.state.rebuilding->job.job_id, " has ended"));
  turn.state.rebuilding.reset();
  // The job is stopping, and no member is left to stop.
  bool has_ended = false;
  for (auto& [number, job] : turn.state.jobs) {
    if (job.state != v1::JOB_STATE_QUEUED || job.ending.has_value() ||
        !job.cancel_reason.has_value()) {
      continue;
    }
    DecideEnd(turn, job,
              {v1::JOB_STATE_CANCELLED, static_cast<int>(ExitCode::kStopped),
               absl::StrCat("cancelled: ", *job.cancel_reason)});
    has_ended = true;
  }
  // Otherwise the queue advances once the end is durable.
  if (!has_ended) AdvanceQueue(turn);
}

void Begin(Turn& turn, const Worker& worker, const HeldJob& held,
           int64_t generation, uint64_t formed_by) {
  if (turn.state.rebuilding.has_value()) {
    ReleaseReporters(turn, worker.name,
                     absl::StrCat("a member reported a newer generation than ",
                                  turn.state.rebuilding->generation));
  }
  turn.state.kept_events.clear();
  Suspend(turn, worker.name);
  const bool is_creating =
      turn.state.rebuilding.has_value() && turn.state.rebuilding->is_creating;
  turn.state.rebuilding = Rebuilding{};
  Rebuilding& rebuilding = *turn.state.rebuilding;
  rebuilding.is_creating = is_creating;
  rebuilding.generation = generation;
  rebuilding.formed_by = formed_by;
  rebuilding.job = held;
  rebuilding.job_number = NumberOf(turn.state, held);
  rebuilding.since = turn.now;
  rebuilding.deadline = turn.now + turn.config.reattach_budget;
  turn.Emit(v1::EVENT_SEVERITY_INFO, "job.rebuilding", worker.name,
            absl::StrCat("worker ", worker.name, " tells of generation ",
                         generation, " of job ", held.job_id, " with ",
                         held.world_size, " ranks", AndServers(held.servers),
                         ", which the journal does not know"));
}

JobCreatedRecord CreatedRecord(const Turn& turn) {
  const HeldJob& held = turn.state.rebuilding->job;
  JobCreatedRecord record;
  record.number = turn.state.rebuilding->job_number;
  record.id = held.job_id;
  static_cast<JobTerms&>(record) = held;
  record.time = turn.time;
  return record;
}

}  // namespace

bool TakeReport(Turn& turn, Worker& worker, const HelloReceived& hello) {
  if (!hello.held_job.has_value() || hello.generation == 0) return false;
  const HeldJob& held = *hello.held_job;
  const Rebuilding* const rebuilding =
      turn.state.rebuilding.has_value() ? &*turn.state.rebuilding : nullptr;
  const bool is_same = rebuilding != nullptr &&
                       rebuilding->generation == hello.generation &&
                       rebuilding->formed_by == hello.formed_by &&
                       rebuilding->job.job_id == held.job_id;
  if (!is_same) {
    // A generation that is being recorded counts, unless the same job has a
    // newer one.
    const bool is_newer =
        rebuilding == nullptr ||
        (hello.generation > rebuilding->generation &&
         (rebuilding->job.job_id == held.job_id ||
          (!rebuilding->is_recording && !rebuilding->is_creating)));
    if (!is_newer || !CanTakeOver(turn.state, held, hello.generation)) {
      return false;
    }
    Begin(turn, worker, held, hello.generation, hello.formed_by);
  }
  Rebuilding& taken = *turn.state.rebuilding;
  const Worker* const holder = ReporterOf(turn.state, held.rank);
  if (held.world_size != taken.job.world_size ||
      held.servers != taken.job.servers ||
      worker.role != RoleOf(held, held.rank) ||
      (holder != nullptr && holder->name != worker.name)) {
    return false;
  }
  taken.workers[held.rank] = worker.name;
  if (worker.state != v1::WORKER_STATE_DRAINING) {
    worker.state = v1::WORKER_STATE_ASSIGNED;
  }
  worker.job_id = held.job_id;
  worker.rank = held.rank;
  worker.generation = hello.generation;
  worker.step = hello.applied_step;
  return true;
}

void ContinueRebuilding(Turn& turn) {
  // Where workers of a release that does not tell who formed their generation
  // report it, others may tell what that means.
  if (!turn.state.rebuilding.has_value() || IsOutdated(turn.state)) return;
  Rebuilding& rebuilding = *turn.state.rebuilding;
  const Job* const job = turn.state.FindJob(rebuilding.job.job_id);
  if (job != nullptr && IsEnded(job->state)) {
    GiveUp(turn);
    return;
  }
  if (job != nullptr) rebuilding.is_creating = false;
  const bool is_ending = job != nullptr && job->ending.has_value();
  if (is_ending || rebuilding.is_creating || rebuilding.is_recording) return;
  const int count = ReporterCount(turn.state);
  if (count < MemberCount(rebuilding.job) && !rebuilding.is_due) return;
  if (count == 0) {
    GiveUp(turn);
    return;
  }
  if (!turn.state.journal_error.empty()) return;
  if (job == nullptr) {
    rebuilding.is_creating = true;
    turn.Persist(CreatedRecord(turn));
    return;
  }
  rebuilding.is_recording = true;
  turn.state.last_recorded_generation = rebuilding.generation;
  turn.Persist(RebuiltRecord(turn, *job));
}

void OnRebuildDeadline(Turn& turn) {
  turn.state.rebuilding->deadline = MonotonicTime::InfiniteFuture();
  turn.state.rebuilding->is_due = true;
  ContinueRebuilding(turn);
}

bool OnRebuiltDurable(Turn& turn, const GenerationFormedRecord& record) {
  if (!turn.state.rebuilding.has_value() ||
      turn.state.rebuilding->generation != record.generation) {
    return false;
  }
  turn.state.rebuilding->is_recording = false;
  Job* const job = turn.state.FindJob(record.job_id);
  if (job != nullptr && !IsEnded(job->state) && !job->ending.has_value()) {
    TakeOver(turn, *job, record);
  }
  return true;
}

bool OnRebuiltNotDurable(Turn& turn, const JournalRecord& record) {
  if (!turn.state.rebuilding.has_value()) return false;
  Rebuilding& rebuilding = *turn.state.rebuilding;
  const auto* const formed = std::get_if<GenerationFormedRecord>(&record);
  const bool is_creation = std::holds_alternative<JobCreatedRecord>(record) &&
                           JobIdOf(record) == rebuilding.job.job_id;
  if (!is_creation &&
      (formed == nullptr || formed->generation != rebuilding.generation)) {
    return false;
  }
  rebuilding.is_creating = rebuilding.is_recording = false;
  return true;
}

bool KeepForLater(Turn& turn, const Worker& worker, const EventBody& body) {
  State& state = turn.state;
  if (!state.rebuilding.has_value() || !IsReporter(*state.rebuilding, worker)) {
    return false;
  }
  const bool is_kept = std::holds_alternative<PreparedReceived>(body) ||
                       std::holds_alternative<HaltedReceived>(body) ||
                       std::holds_alternative<SuspicionReceived>(body) ||
                       std::holds_alternative<FinishedReceived>(body) ||
                       std::holds_alternative<FailedReceived>(body);
  if (!is_kept) return false;
  const auto members = static_cast<size_t>(MemberCount(state.rebuilding->job));
  if (state.kept_events.size() < kMaxKeptPerRank * members) {
    state.kept_events.push_back(body);
  }
  return true;
}

std::optional<EventBody> TakeKept(Turn& turn) {
  std::deque<EventBody>& kept = turn.state.kept_events;
  if (turn.state.rebuilding.has_value() || kept.empty()) return std::nullopt;
  EventBody next = std::move(kept.front());
  kept.pop_front();
  return next;
}

}  // namespace ringmaster::coordinator
