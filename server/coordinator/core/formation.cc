#include "server/coordinator/core/formation.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/coordinator/core/goodput.h"
#include "server/coordinator/core/halt.h"
#include "server/coordinator/core/incident.h"
#include "server/coordinator/core/job_end.h"
#include "server/coordinator/core/rendezvous.h"
#include "server/coordinator/core/verdict.h"

namespace ringmaster::coordinator {
namespace {

void SetMessage(Turn& turn, Job& job, std::string message) {
  if (job.message == message) return;
  job.message = std::move(message);
  turn.Touch(job);
}

// "1 rank", "2 ranks".
std::string Counted(size_t count, std::string_view noun) {
  return absl::StrCat(count, " ", std::string(noun), count == 1 ? "" : "s");
}

std::string GatheringMessage(const Job& job, int idle_count) {
  if (idle_count < job.min_workers) {
    return absl::StrCat("waits for workers: ", idle_count, " of at least ",
                        job.min_workers, " are idle");
  }
  return absl::StrCat(idle_count, " of at most ", job.max_workers,
                      " workers are idle; begins once nobody joined for ",
                      absl::FormatDuration(job.settle));
}

// What a member has said that outlives its generation.
Member CarriedOver(const Job& job, MemberIdentity identity) {
  Member member;
  for (const Member& before : job.members) {
    if (before.is_lost || before.identity.worker != identity.worker) continue;
    member.step = before.step;
    member.halted = before.halted;
  }
  member.identity = std::move(identity);
  return member;
}

void ResetForGeneration(Job& job) {
  job.is_assigned = false;
  job.is_recovered = false;
  job.waits_for_journal = false;
  job.halt_intent = HaltIntent::kReform;
  job.suspicions.clear();
  // Any rank's figures replace those of the generation before.
  job.figures_rank = std::numeric_limits<int>::max();
  job.halt_deadline = MonotonicTime::InfiniteFuture();
  job.stop_deadline = MonotonicTime::InfiniteFuture();
  job.suspicion_deadline = MonotonicTime::InfiniteFuture();
  job.reattach_deadline = MonotonicTime::InfiniteFuture();
  job.gang_deadline = MonotonicTime::InfiniteFuture();
}

int HostCount(const Job& job) {
  std::set<std::string_view> hosts;
  for (const Member& member : job.members) {
    hosts.insert(member.identity.host_key);
  }
  return static_cast<int>(hosts.size());
}

int PreparedCount(const Job& job) {
  return static_cast<int>(
      std::count_if(job.members.begin(), job.members.end(),
                    [](const Member& m) { return m.prepared.has_value(); }));
}

void StartTraining(Turn& turn, Job& job) {
  job.state = JobState::kRunning;
  job.last_progress = turn.now;
  NoteStarted(turn, job);
  job.message = absl::StrCat("trains on ", Counted(job.members.size(), "rank"));
  turn.Touch(job);
  for (const Member& member : job.members) {
    const Worker* const worker = turn.state.FindWorker(member.identity.worker);
    turn.Do(SendStart{worker->session, job.generation});
  }
  turn.Emit(EventSeverity::kInfo, "job.running", job, "",
            absl::StrCat("generation ", job.generation, " trains on ",
                         Counted(job.members.size(), "rank"), " from step ",
                         job.resume_step + 1));
}

// A member prepared, but the job is past that.
void OnLatePrepared(Turn& turn, Job& job, const Worker& worker,
                    const Member& member) {
  if (member.prepared.has_value()) {
    // It attached again and repeats itself: it has missed the start.
    if (job.state == JobState::kRunning) {
      turn.Do(SendStart{worker.session, job.generation});
    }
    return;
  }
  // Whether the others were started was known only to the coordinator's life
  // before.
  BeginHalt(turn, job,
            job.state == JobState::kStopping ? HaltIntent::kCancel
                                             : HaltIntent::kReform,
            VerdictOnNobody(job,
                            "the coordinator restarted before all members of "
                            "the generation had started",
                            turn.time));
}

}  // namespace

bool IsForming(const Job& job) {
  return job.state == JobState::kPreparing && !job.is_assigned;
}

bool IsNew(const Job& job) { return job.start_time == absl::InfinitePast(); }

void AdvanceQueue(Turn& turn) {
  if (turn.state.active_job != 0) return;
  for (auto& [number, job] : turn.state.jobs) {
    if (job.state != JobState::kQueued || job.ending.has_value()) continue;
    turn.state.active_job = number;
    Account(job, turn.now);
    job.state = JobState::kGathering;
    job.gathering_since = turn.now;
    turn.Touch(job);
    turn.Emit(EventSeverity::kInfo, "job.gathering", job, "",
              absl::StrCat("waits for ", job.min_workers, " to ",
                           job.max_workers, " workers"));
    TryGather(turn);
    return;
  }
}

void TryGather(Turn& turn) {
  Job* const job = turn.state.ActiveJob();
  if (job == nullptr || job->state != JobState::kGathering ||
      job->ending.has_value()) {
    return;
  }
  job->gang_deadline = MonotonicTime::InfiniteFuture();
  if (!turn.state.journal_error.empty()) {
    SetMessage(
        turn, *job,
        absl::StrCat("waits for the journal: ", turn.state.journal_error));
    return;
  }
  const int idle_count = IdleCount(turn.state);
  const MonotonicTime gang_time =
      GangTime(*job, idle_count, LastIdleJoin(turn.state), turn.now);
  if (gang_time > turn.now) {
    job->gang_deadline = gang_time;
    SetMessage(turn, *job, GatheringMessage(*job, idle_count));
    return;
  }
  std::vector<const Worker*> workers = PackedIdleWorkers(turn.state);
  if (idle_count > job->max_workers) workers.resize(job->max_workers);
  FormGeneration(turn, *job, workers, /*resume_step=*/0);
}

void FormGeneration(Turn& turn, Job& job,
                    const std::vector<const Worker*>& workers,
                    int64_t resume_step) {
  std::vector<MemberIdentity> identities = AssignRanks(workers);
  std::vector<Member> table;
  for (const MemberIdentity& identity : identities) {
    table.push_back(CarriedOver(job, identity));
  }
  job.members = std::move(table);
  job.generation = ++turn.state.last_generation;
  if (IsNew(job)) job.first_generation = job.generation;
  job.resume_step = resume_step;
  job.best_step = std::max(job.best_step, resume_step);
  job.state = JobState::kPreparing;
  job.message = absl::StrCat("forms generation ", job.generation);
  ResetForGeneration(job);
  for (const MemberIdentity& identity : identities) {
    Worker& worker = *turn.state.FindWorker(identity.worker);
    if (worker.state == WorkerState::kIdle) {
      worker.state = WorkerState::kAssigned;
    }
    worker.job_id = job.id;
    worker.rank = identity.rank;
  }
  turn.Touch(job);
  turn.Persist(GenerationFormedRecord{
      job.generation, job.id, std::move(identities), resume_step, turn.time});
}

void AbandonFormation(Turn& turn, Job& job) {
  for (const Member& member : job.members) {
    Worker* const worker = turn.state.FindWorker(member.identity.worker);
    if (worker != nullptr && !member.is_lost) ReturnToPool(*worker);
  }
  job.members.clear();
  job.generation = 0;
  job.state = JobState::kGathering;
  turn.Touch(job);
  TryGather(turn);
}

void OnGenerationDurable(Turn& turn, const GenerationFormedRecord& record) {
  Job* const job = turn.state.ActiveJob();
  if (job == nullptr || job->generation != record.generation ||
      !IsForming(*job) || job->ending.has_value()) {
    return;  // Overtaken by a loss or a cancel; the generation is never used.
  }
  job->is_assigned = true;
  job->last_progress = turn.now;
  NoteAssigned(turn, *job);
  if (IsNew(*job)) job->start_time = turn.time;
  job->message = absl::StrCat("0 of ", job->members.size(), " have prepared");
  turn.Touch(*job);
  for (Member& member : job->members) {
    member.halted.reset();
    SendAssignmentTo(turn, *job, member);
  }
  turn.Emit(EventSeverity::kInfo, "job.assigned", *job, "",
            absl::StrCat("generation ", job->generation, ": ",
                         Counted(job->members.size(), "rank"), " on ",
                         Counted(HostCount(*job), "host"), ", after step ",
                         job->resume_step));
}

void OnGenerationNotDurable(Turn& turn, const GenerationFormedRecord& record) {
  Job* const job = turn.state.ActiveJob();
  if (job == nullptr || job->generation != record.generation ||
      !IsForming(*job) || job->ending.has_value()) {
    return;
  }
  if (IsNew(*job)) {
    AbandonFormation(turn, *job);
    return;
  }
  job->state = JobState::kHalting;
  ResolveHalt(turn, *job);
}

void SendAssignmentTo(Turn& turn, const Job& job, const Member& member) {
  Worker& worker = *turn.state.FindWorker(member.identity.worker);
  worker.generation = job.generation;
  worker.phase = Phase::kPrepare;
  worker.collective_sequence = 0;
  worker.waiting_for_rank = -1;
  const int world_size = static_cast<int>(job.members.size());
  const int rank = member.identity.rank;
  SendAssignment assignment;
  assignment.session = worker.session;
  assignment.generation = job.generation;
  assignment.job_id = job.id;
  assignment.self = member.identity;
  assignment.prev = job.members[(rank + world_size - 1) % world_size].identity;
  assignment.next = job.members[(rank + 1) % world_size].identity;
  assignment.world_size = world_size;
  // Ranks of a host follow one another, so only they are looked at.
  int local = member.identity.local_rank + 1;
  while (rank - member.identity.local_rank + local < world_size &&
         job.members[rank - member.identity.local_rank + local]
                 .identity.host_key == member.identity.host_key) {
    ++local;
  }
  assignment.local_world_size = local;
  assignment.resume_step = job.resume_step;
  turn.Do(std::move(assignment));
}

void OnPrepared(Turn& turn, const Worker& worker,
                const PreparedReceived& prepared) {
  Job* const job = turn.state.ActiveJob();
  Member* const member = MemberOf(turn.state, worker);
  if (member == nullptr || prepared.generation != job->generation ||
      job->ending.has_value()) {
    return;
  }
  if (job->state == JobState::kRunning || job->state == JobState::kStopping) {
    OnLatePrepared(turn, *job, worker, *member);
    return;
  }
  if (job->state != JobState::kPreparing || !job->is_assigned) return;
  member->prepared = PreparedAnswer{
      prepared.plan_hash, prepared.data_fingerprint, prepared.summary};
  job->last_progress = turn.now;
  SetMessage(turn, *job,
             absl::StrCat(PreparedCount(*job), " of ", job->members.size(),
                          " have prepared"));
  switch (PreparedAgreement(*job)) {
    case Agreement::kIncomplete:
      return;
    case Agreement::kEqual:
      StartTraining(turn, *job);
      return;
    case Agreement::kDifferent:
      BeginHalt(turn, *job, HaltIntent::kFail,
                VerdictOnPrepared(*job, turn.time));
      return;
  }
}

}  // namespace ringmaster::coordinator
