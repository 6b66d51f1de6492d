#include "server/coordinator/core/life/rebuild.h"

#include <algorithm>
#include <iterator>
#include <map>
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

// Returns true if no job of this coordinator has had that number.
bool IsFree(const State& state, int64_t number) {
  if (number > state.last_job_number) return true;
  const auto gap = state.unused_numbers.upper_bound(number);
  return gap != state.unused_numbers.begin() &&
         number <= std::prev(gap)->second;
}

// Returns true if the worker reports the job known by that id, and not one to
// which another coordinator gave the same id.
bool IsSameJob(const Job& job, const HeldJob& held) {
  return held.spec == job.spec && held.total_steps == job.total_steps;
}

// Returns true if the state allows the job's generation to be taken over.
bool CanTakeOver(State& state, const HeldJob& held, int64_t generation) {
  const int64_t number = NumberOf(state, held);
  // It may have been scaled. Some may be leaving, and be members only to hand over
  // what they hold.
  const int most = std::max(held.max_workers, held.scale_limit);
  if (number == 0 || held.world_size > 2 * most ||
      held.servers > 2 * held.sharding.servers ||
      generation <= state.recovered_generation) {
    return false;
  }
  const Job* const job = state.FindJob(held.job_id);
  if (job == nullptr) {
    return IsFree(state, number) &&
           std::none_of(state.rebuildings.begin(), state.rebuildings.end(),
                        [&](const auto& entry) {
                          return entry.second.job_number == number &&
                                 entry.first != held.job_id;
                        });
  }
  if (generation <= job->generation || IsEnded(job->state()) ||
      job->ending.has_value() || !IsSameJob(*job, held)) {
    return false;
  }
  switch (job->state()) {
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

// No worker is in the known generation of the job with that id, if it is active.
// The job waits in the queue until it is clear which generation is the newest.
// `reporter` is another generation's.
void Suspend(Turn& turn, std::string_view id, std::string_view reporter) {
  Job* const job = turn.state.FindJob(id);
  if (job == nullptr || !turn.state.active_jobs.contains(job->number)) return;
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
  job->stage = stage::Queued{};
  ForgetSuspicions(*job);
  ClearDeadlines(*job);
  job->message = IsNew(*job)
                     ? "waits for the jobs before it"
                     : "waits for the workers that tell of a newer generation";
  turn.state.active_jobs.erase(job->number);
  turn.Touch(*job);
}

int ReporterCount(State& state, const Rebuilding& rebuilding) {
  int count = 0;
  for (const auto& [rank, name] : rebuilding.workers) {
    if (ReporterOf(state, rebuilding, rank) != nullptr) ++count;
  }
  return count;
}

// All but `kept`.
void ReleaseReporters(Turn& turn, const Rebuilding& rebuilding,
                      std::string_view kept, const std::string& why) {
  for (const auto& [rank, name] : rebuilding.workers) {
    Worker* const worker = ReporterOf(turn.state, rebuilding, rank);
    if (worker != nullptr && name != kept)
      Release(turn, *worker, v1::JOB_STATE_FAILED, why);
  }
}

// The job has ended, or nobody is left who could tell of it.
void GiveUp(Turn& turn, const Rebuilding& rebuilding) {
  const std::string id = rebuilding.job.job_id;
  ReleaseReporters(turn, rebuilding, /*kept=*/"",
                   absl::StrCat("job ", id, " has ended"));
  turn.state.rebuildings.erase(id);
  turn.ScheduleSoon();
  // If the job is stopping, no member is left to stop.
  Job* const job = turn.state.FindJob(id);
  if (job == nullptr || job->state() != v1::JOB_STATE_QUEUED ||
      job->ending.has_value() || !job->cancel_reason.has_value()) {
    return;
  }
  DecideEnd(turn, *job,
            {v1::JOB_STATE_CANCELLED, static_cast<int>(ExitCode::kStopped),
             absl::StrCat("cancelled: ", *job->cancel_reason)});
}

// Begins anew if an older generation of the same job is being rebuilt.
Rebuilding& Begin(Turn& turn, const Worker& worker, const HeldJob& held,
                  int64_t generation, uint64_t formed_by) {
  Rebuilding begun;
  if (const auto before = turn.state.rebuildings.find(held.job_id);
      before != turn.state.rebuildings.end()) {
    ReleaseReporters(turn, before->second, worker.name,
                     absl::StrCat("a member reported a newer generation than ",
                                  before->second.generation));
    begun.is_creating = before->second.is_creating;
  }
  Suspend(turn, held.job_id, worker.name);
  begun.generation = generation;
  begun.formed_by = formed_by;
  begun.job = held;
  begun.job_number = NumberOf(turn.state, held);
  begun.since = turn.now;
  begun.deadline = turn.now + turn.config.reattach_budget;
  turn.Emit(v1::EVENT_SEVERITY_INFO, "job.rebuilding", worker.name,
            absl::StrCat("worker ", worker.name, " tells of generation ",
                         generation, " of job ", held.job_id, " with ",
                         held.world_size, " ranks", AndServers(held.servers),
                         ", which the journal does not know"));
  return turn.state.rebuildings[held.job_id] = std::move(begun);
}

JobCreatedRecord CreatedRecord(const Turn& turn, const Rebuilding& rebuilding) {
  JobCreatedRecord record;
  record.number = rebuilding.job_number;
  record.id = rebuilding.job.job_id;
  static_cast<JobTerms&>(record) = rebuilding.job;
  record.time = turn.time;
  return record;
}

// May end `rebuilding`.
void Continue(Turn& turn, Rebuilding& rebuilding) {
  const Job* const job = turn.state.FindJob(rebuilding.job.job_id);
  if (job != nullptr && IsEnded(job->state())) {
    GiveUp(turn, rebuilding);
    return;
  }
  if (job != nullptr) rebuilding.is_creating = false;
  const bool is_ending = job != nullptr && job->ending.has_value();
  if (is_ending || rebuilding.is_creating || rebuilding.is_recording) return;
  const int count = ReporterCount(turn.state, rebuilding);
  if (count < MemberCount(rebuilding.job) && !rebuilding.is_due) return;
  if (count == 0) {
    GiveUp(turn, rebuilding);
    return;
  }
  if (!turn.state.journal_error.empty()) return;
  if (job == nullptr) {
    rebuilding.is_creating = true;
    turn.Persist(CreatedRecord(turn, rebuilding));
    return;
  }
  rebuilding.is_recording = true;
  turn.Persist(RebuiltRecord(turn, rebuilding, *job));
}

}  // namespace

bool ReportsAnotherJob(State& state, const Worker& worker,
                       const HelloReceived& hello) {
  return worker.state == v1::WORKER_STATE_DETACHED &&
         MemberOf(state, worker) != nullptr && hello.held_job.has_value() &&
         hello.held_job->job_id != worker.job_id &&
         CanTakeOver(state, *hello.held_job, hello.generation);
}

bool TakeReport(Turn& turn, Worker& worker, const HelloReceived& hello) {
  if (!hello.held_job.has_value() || hello.generation == 0) return false;
  const HeldJob& held = *hello.held_job;
  const auto known = turn.state.rebuildings.find(held.job_id);
  Rebuilding* taken =
      known == turn.state.rebuildings.end() ? nullptr : &known->second;
  const bool is_same = taken != nullptr &&
                       taken->generation == hello.generation &&
                       taken->formed_by == hello.formed_by;
  if (!is_same) {
    const bool is_newer =
        taken == nullptr || hello.generation > taken->generation;
    if (!is_newer || !CanTakeOver(turn.state, held, hello.generation)) {
      return false;
    }
    taken = &Begin(turn, worker, held, hello.generation, hello.formed_by);
  }
  const Worker* const holder = ReporterOf(turn.state, *taken, held.rank);
  if (held.world_size != taken->job.world_size ||
      held.servers != taken->job.servers ||
      worker.role != RoleOf(held, held.rank) ||
      (holder != nullptr && holder->name != worker.name)) {
    return false;
  }
  taken->workers[held.rank] = worker.name;
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
  if (IsOutdated(turn.state)) return;
  std::map<std::string, Rebuilding, std::less<>>& all = turn.state.rebuildings;
  for (auto it = all.begin(); it != all.end();) {
    Continue(turn, (it++)->second);
  }
}

void OnRebuildDeadlines(Turn& turn) {
  bool is_any_due = false;
  for (auto& [id, rebuilding] : turn.state.rebuildings) {
    if (rebuilding.deadline > turn.now) continue;
    rebuilding.deadline = MonotonicTime::InfiniteFuture();
    rebuilding.is_due = is_any_due = true;
  }
  if (is_any_due) ContinueRebuilding(turn);
}

bool OnRebuiltDurable(Turn& turn, const GenerationFormedRecord& record) {
  const auto it = turn.state.rebuildings.find(record.job_id);
  if (it == turn.state.rebuildings.end() ||
      it->second.generation != record.generation) {
    return false;
  }
  it->second.is_recording = false;
  Job* const job = turn.state.FindJob(record.job_id);
  if (job != nullptr && !IsEnded(job->state()) && !job->ending.has_value()) {
    TakeOver(turn, *job, it->second, record);
  }
  return true;
}

bool OnRebuiltNotDurable(Turn& turn, const JournalRecord& record) {
  const auto it = turn.state.rebuildings.find(JobIdOf(record));
  if (it == turn.state.rebuildings.end()) return false;
  const auto* const formed = std::get_if<GenerationFormedRecord>(&record);
  const bool is_creation = std::holds_alternative<JobCreatedRecord>(record);
  if (!is_creation &&
      (formed == nullptr || formed->generation != it->second.generation)) {
    return false;
  }
  it->second.is_creating = it->second.is_recording = false;
  return true;
}

bool KeepForLater(Turn& turn, const Worker& worker, const EventBody& body) {
  const auto it = turn.state.rebuildings.find(worker.job_id);
  if (it == turn.state.rebuildings.end() || !IsReporter(it->second, worker)) {
    return false;
  }
  const bool is_kept = std::holds_alternative<PreparedReceived>(body) ||
                       std::holds_alternative<HaltedReceived>(body) ||
                       std::holds_alternative<SuspicionReceived>(body) ||
                       std::holds_alternative<FinishedReceived>(body) ||
                       std::holds_alternative<FailedReceived>(body);
  if (!is_kept) return false;
  Rebuilding& rebuilding = it->second;
  const auto members = static_cast<size_t>(MemberCount(rebuilding.job));
  if (rebuilding.kept_events.size() < kMaxKeptPerRank * members) {
    rebuilding.kept_events.push_back(body);
  }
  return true;
}

std::optional<EventBody> TakeKept(Turn& turn) {
  std::deque<EventBody>& kept = turn.state.kept_events;
  if (kept.empty()) return std::nullopt;
  EventBody next = std::move(kept.front());
  kept.pop_front();
  return next;
}

}  // namespace ringmaster::coordinator
