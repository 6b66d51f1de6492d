#include "server/coordinator/core/rebuild.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status/exit_code.h"
#include "server/coordinator/core/attach.h"
#include "server/coordinator/core/formation.h"
#include "server/coordinator/core/goodput.h"
#include "server/coordinator/core/halt.h"
#include "server/coordinator/core/job_end.h"
#include "server/coordinator/core/reform.h"
#include "server/coordinator/core/rendezvous.h"
#include "server/coordinator/core/training.h"
#include "server/coordinator/core/verdict.h"

namespace ringmaster::coordinator {
namespace {

// Job numbers beyond are no numbers that a coordinator has given.
constexpr int64_t kMaxJobNumber = int64_t{1} << 62;
// What is kept of one member: more than it can have to say.
constexpr size_t kMaxKeptPerRank = 8;

// N of "name-N"; 0 if the id is another.
int64_t NumberOf(const HeldJob& held) {
  const std::string prefix = held.name + "-";
  if (held.job_id.compare(0, prefix.size(), prefix) != 0) return 0;
  int64_t number = 0;
  const std::string digits = held.job_id.substr(prefix.size());
  if (!absl::SimpleAtoi(digits, &number) || number <= 0 ||
      number > kMaxJobNumber || absl::StrCat(number) != digits) {
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

// Whether the worker tells of the job that is known by that id, and not of one
// that another coordinator gave it to.
bool IsSameJob(const Job& job, const HeldJob& held) {
  return held.spec == job.spec && held.min_workers == job.min_workers &&
         held.max_workers == job.max_workers &&
         held.total_steps == job.total_steps;
}

// Whether the state allows for the job's generation to be taken over.
bool CanTakeOver(State& state, const HeldJob& held, int64_t generation) {
  const int64_t number = NumberOf(held);
  if (number == 0 || held.world_size > held.max_workers ||
      generation <= state.last_recorded_generation ||
      HasOtherRunning(state, held.job_id)) {
    return false;
  }
  const Job* const job = state.FindJobById(held.job_id);
  if (job == nullptr) return number > state.last_job_number;
  if (IsEnded(job->state) || job->ending.has_value() ||
      !IsSameJob(*job, held)) {
    return false;
  }
  switch (job->state) {
    case JobState::kQueued:
      return true;
    case JobState::kGathering:
      // One that this coordinator has formed itself is the newest.
      return IsNew(*job) || job->is_recovered;
    default:
      // Once its members have had their time to come back, it is theirs.
      return job->is_recovered &&
             job->reattach_deadline != MonotonicTime::InfiniteFuture();
  }
}

void Release(Turn& turn, Worker& worker, const std::string& why) {
  if (worker.session != 0 && worker.generation != 0) {
    turn.Do(
        SendRelease{worker.session, worker.generation, JobState::kFailed, why});
  }
  ReturnToPool(worker);
}

// Nobody works for the active job in the generation that is known. It waits in
// the queue until it is clear which is the newest. `reporter` is another
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
      Release(turn, it->second,
              absl::StrCat("a newer generation than ", job->generation,
                           " is told of"));
    }
  }
  job->members.clear();
  job->state = JobState::kQueued;
  job->halt_intent = HaltIntent::kReform;
  job->suspicions.clear();
  ClearDeadlines(*job);
  job->message = IsNew(*job)
                     ? "waits for the jobs before it"
                     : "waits for the workers that tell of a newer generation";
  turn.state.active_job = 0;
  turn.Touch(*job);
}

bool IsReporter(const Rebuilding& rebuilding, const Worker& worker) {
  const auto it = rebuilding.workers.find(worker.rank);
  return worker.session != 0 && it != rebuilding.workers.end() &&
         it->second == worker.name &&
         worker.generation == rebuilding.generation;
}

// The worker that reported `rank` and is still there, or null.
Worker* ReporterOf(State& state, int rank) {
  const Rebuilding& rebuilding = *state.rebuilding;
  const auto it = rebuilding.workers.find(rank);
  if (it == rebuilding.workers.end()) return nullptr;
  Worker* const worker = state.FindWorker(it->second);
  return worker != nullptr && worker->rank == rank &&
                 IsReporter(rebuilding, *worker)
             ? worker
             : nullptr;
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
    if (worker != nullptr && name != kept) Release(turn, *worker, why);
  }
}

void GiveUp(Turn& turn) {
  ReleaseReporters(
      turn, /*kept=*/"",
      absl::StrCat("job ", turn.state.rebuilding->job.job_id, " has ended"));
  turn.state.rebuilding.reset();
  // Known to be stopping, and nobody is left to be stopped.
  bool has_ended = false;
  for (auto& [number, job] : turn.state.jobs) {
    if (job.state != JobState::kQueued || job.ending.has_value() ||
        !job.cancel_reason.has_value()) {
      continue;
    }
    DecideEnd(turn, job,
              {JobState::kCancelled, static_cast<int>(ExitCode::kStopped),
               absl::StrCat("cancelled: ", *job.cancel_reason)});
    has_ended = true;
  }
  // Else the queue goes on once the end is durable.
  if (!has_ended) AdvanceQueue(turn);
}

void Begin(Turn& turn, const Worker& worker, const HeldJob& held,
           int64_t generation) {
  if (turn.state.rebuilding.has_value()) {
    ReleaseReporters(
        turn, worker.name,
        absl::StrCat("a newer generation than ",
                     turn.state.rebuilding->generation, " is told of"));
  }
  turn.state.kept_events.clear();
  Suspend(turn, worker.name);
  const bool is_creating =
      turn.state.rebuilding.has_value() && turn.state.rebuilding->is_creating;
  turn.state.rebuilding = Rebuilding{};
  Rebuilding& rebuilding = *turn.state.rebuilding;
  rebuilding.is_creating = is_creating;
  rebuilding.generation = generation;
  rebuilding.job = held;
  rebuilding.job_number = NumberOf(held);
  rebuilding.since = turn.now;
  rebuilding.deadline = turn.now + turn.config.reattach_budget;
  turn.Emit(
      EventSeverity::kInfo, "job.rebuilding", worker.name,
      absl::StrCat("worker ", worker.name, " tells of generation ", generation,
                   " of job ", held.job_id, " with ", held.world_size,
                   " ranks, which the journal does not know"));
}

JobCreatedRecord CreatedRecord(const Turn& turn) {
  const HeldJob& held = turn.state.rebuilding->job;
  JobCreatedRecord record;
  record.number = turn.state.rebuilding->job_number;
  record.id = held.job_id;
  record.name = held.name;
  record.spec = held.spec;
  record.min_workers = held.min_workers;
  record.max_workers = held.max_workers;
  record.settle = held.settle;
  record.total_steps = held.total_steps;
  record.time = turn.time;
  return record;
}

// Of a rank that nobody has reported. No worker has incarnation 0, so it is
// nobody.
MemberIdentity UnknownIdentity(int rank) {
  MemberIdentity identity;
  identity.worker = absl::StrCat("unknown-", rank);
  identity.host = "unknown";
  return identity;
}

// `job` is as the journal knows it.
GenerationFormedRecord FormedRecord(Turn& turn, const Job& job) {
  const Rebuilding& rebuilding = *turn.state.rebuilding;
  GenerationFormedRecord record;
  record.generation = rebuilding.generation;
  record.job_id = rebuilding.job.job_id;
  record.resume_step = rebuilding.job.resume_step;
  // No applied step is given up but by a rollback, here to or before a
  // generation that the journal does not know.
  record.is_rollback = record.resume_step < job.best_step;
  record.time = turn.time;
  std::map<std::string, int> on_host;
  for (int rank = 0; rank < rebuilding.job.world_size; ++rank) {
    const Worker* const worker = ReporterOf(turn.state, rank);
    MemberIdentity identity =
        worker == nullptr ? UnknownIdentity(rank) : IdentityOf(*worker);
    identity.rank = rank;
    if (worker != nullptr) identity.local_rank = on_host[worker->host_key]++;
    record.members.push_back(std::move(identity));
  }
  return record;
}

// The worker that is `identity`, if it is still as it reported.
Worker* WorkerOf(State& state, const MemberIdentity& identity) {
  Worker* const worker = ReporterOf(state, identity.rank);
  return worker != nullptr && worker->name == identity.worker &&
                 worker->incarnation == identity.incarnation
             ? worker
             : nullptr;
}

// Binds the members that are there to the job; returns the ranks of the others.
std::vector<int> Seat(Turn& turn, Job& job,
                      const GenerationFormedRecord& record) {
  std::vector<int> missing;
  job.members.clear();
  for (const MemberIdentity& identity : record.members) {
    Member member;
    member.identity = identity;
    member.since = record.generation;
    member.step = job.resume_step;
    if (const Worker* const worker = WorkerOf(turn.state, identity)) {
      member.step = std::max(member.step, worker->step);
      job.best_step = std::max(job.best_step, member.step);
    } else {
      missing.push_back(identity.rank);
    }
    job.members.push_back(std::move(member));
  }
  return missing;
}

// "2 of 3 ranks are there, without rank 1".
std::string SeatsText(const Job& job, const std::vector<int>& missing) {
  constexpr size_t kMostShown = 8;
  std::string text = absl::StrCat(job.members.size() - missing.size(), " of ",
                                  job.members.size(), " ranks are there");
  for (size_t i = 0; i < missing.size(); ++i) {
    if (i == kMostShown) return absl::StrCat(text, ", ...");
    absl::StrAppend(&text,
                    i > 0                 ? ", "
                    : missing.size() == 1 ? ", without rank "
                                          : ", without ranks ",
                    missing[i]);
  }
  return text;
}

// Those whose rank the record does not have: they came too late for it.
void ReleaseLate(Turn& turn, const Job& job) {
  for (const Member& member : job.members) {
    Worker* const worker = ReporterOf(turn.state, member.identity.rank);
    if (worker != nullptr && WorkerOf(turn.state, member.identity) == nullptr) {
      Release(turn, *worker,
              absl::StrCat("generation ", job.generation,
                           " is over for worker ", worker->name));
    }
  }
}

// Nothing was heard of them since the rebuilding began, at `since`.
void LoseMissing(Turn& turn, Job& job, const std::vector<int>& missing,
                 MonotonicTime since) {
  const std::string detail =
      absl::StrCat("did not attach again within ",
                   absl::FormatDuration(turn.config.reattach_budget),
                   " after the coordinator lost its state");
  for (const int rank : missing) {
    if (job.ending.has_value()) return;
    Worker gone = DetachedWorker(job.members[rank].identity, job);
    gone.last_heard = since;
    OnMemberGone(turn, gone, "was lost",
                 {EvidenceKind::kLeaseExpired,
                  std::string(kCoordinatorObserver), detail});
  }
}

void TakeOver(Turn& turn, Job& job, const GenerationFormedRecord& record) {
  const int64_t known = job.generation;
  Account(job, turn.now);
  job.generation = record.generation;
  if (job.first_generation == 0) job.first_generation = record.generation;
  job.resume_step = record.resume_step;
  if (record.is_rollback) CountRollback(job);
  // What the older journal knew beyond is given up; Seat adds what the members
  // have applied.
  job.best_step = record.resume_step;
  if (job.start_time == absl::InfinitePast()) job.start_time = record.time;
  const std::vector<int> missing = Seat(turn, job, record);
  ReleaseLate(turn, job);
  job.state = JobState::kRunning;
  job.is_assigned = job.is_recovered = job.has_trained = true;
  job.waits_for_journal = false;
  job.last_progress = turn.now;
  turn.state.active_job = job.number;
  job.message = absl::StrCat(
      "rebuilt from what its workers tell: ", SeatsText(job, missing), "; ",
      known == 0 ? std::string("the journal knew of no generation of it")
                 : absl::StrCat("the journal knew generation ", known));
  turn.Touch(job);
  turn.Emit(EventSeverity::kWarning, "job.rebuilt", job, "", job.message);
  if (job.cancel_reason.has_value()) StopMembers(turn, job);
  const MonotonicTime since = turn.state.rebuilding->since;
  turn.state.rebuilding.reset();
  LoseMissing(turn, job, missing, since);
}

}  // namespace

bool TakeReport(Turn& turn, Worker& worker, const HelloReceived& hello) {
  if (!hello.held_job.has_value() || hello.generation == 0) return false;
  const HeldJob& held = *hello.held_job;
  const Rebuilding* const rebuilding =
      turn.state.rebuilding.has_value() ? &*turn.state.rebuilding : nullptr;
  const bool is_same = rebuilding != nullptr &&
                       rebuilding->generation == hello.generation &&
                       rebuilding->job.job_id == held.job_id;
  if (!is_same) {
    // What is being recorded stands, unless the same job has gone on.
    const bool is_newer =
        rebuilding == nullptr ||
        (hello.generation > rebuilding->generation &&
         (rebuilding->job.job_id == held.job_id ||
          (!rebuilding->is_recording && !rebuilding->is_creating)));
    if (!is_newer || !CanTakeOver(turn.state, held, hello.generation)) {
      return false;
    }
    Begin(turn, worker, held, hello.generation);
  }
  Rebuilding& taken = *turn.state.rebuilding;
  const Worker* const holder = ReporterOf(turn.state, held.rank);
  if (held.world_size != taken.job.world_size ||
      (holder != nullptr && holder->name != worker.name)) {
    return false;
  }
  taken.workers[held.rank] = worker.name;
  if (worker.state != WorkerState::kDraining) {
    worker.state = WorkerState::kAssigned;
  }
  worker.job_id = held.job_id;
  worker.rank = held.rank;
  worker.generation = hello.generation;
  worker.step = hello.applied_step;
  return true;
}

void ContinueRebuilding(Turn& turn) {
  if (!turn.state.rebuilding.has_value()) return;
  Rebuilding& rebuilding = *turn.state.rebuilding;
  const Job* const job = turn.state.FindJobById(rebuilding.job.job_id);
  if (job != nullptr && IsEnded(job->state)) {
    GiveUp(turn);
    return;
  }
  if (job != nullptr) rebuilding.is_creating = false;
  const bool is_ending = job != nullptr && job->ending.has_value();
  if (is_ending || rebuilding.is_creating || rebuilding.is_recording) return;
  const int count = ReporterCount(turn.state);
  if (count < rebuilding.job.world_size && !rebuilding.is_due) return;
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
  turn.Persist(FormedRecord(turn, *job));
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
  Job* const job = turn.state.FindJobById(record.job_id);
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
  const auto world_size = static_cast<size_t>(state.rebuilding->job.world_size);
  if (state.kept_events.size() < kMaxKeptPerRank * world_size) {
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
