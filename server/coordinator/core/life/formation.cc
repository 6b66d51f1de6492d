#include "server/coordinator/core/life/formation.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/exit_code.h"
#include "server/coordinator/core/account/goodput.h"
#include "server/coordinator/core/account/incident.h"
#include "server/coordinator/core/account/memberships.h"
#include "server/coordinator/core/account/verdict.h"
#include "server/coordinator/core/life/absence.h"
#include "server/coordinator/core/life/halt.h"
#include "server/coordinator/core/life/hand_over.h"
#include "server/coordinator/core/life/job_end.h"
#include "server/coordinator/core/life/membership.h"
#include "server/coordinator/core/life/own_failure.h"
#include "server/coordinator/core/life/reform.h"
#include "server/coordinator/core/life/rehearsal.h"
#include "server/coordinator/core/life/training.h"
#include "server/coordinator/core/placement/cost_agreement.h"
#include "server/coordinator/core/placement/idle_pool.h"
#include "server/coordinator/core/placement/rendezvous.h"
#include "server/coordinator/core/placement/shards.h"
#include "server/coordinator/core/state/formed.h"

namespace ringmaster::coordinator {
namespace {

std::string GatheringMessage(const Job& job, int idle_count, int idle_servers) {
  if (idle_count < job.min_workers) {
    return absl::StrCat("waits for workers", FitText(job), ": ", idle_count,
                        " of at least ", job.min_workers, " are idle");
  }
  if (idle_servers < job.sharding.servers) {
    return absl::StrCat("waits for parameter servers: ", idle_servers, " of ",
                        job.sharding.servers, " are idle");
  }
  return absl::StrCat(idle_count, " of at most ", job.max_workers,
                      " workers are idle; begins once nobody joined for ",
                      absl::FormatDuration(job.settle));
}

// Returns the members with those of their reports that remain valid after their
// generation. A worker that joins a job that has begun holds nothing, which
// counts if the generation is given up before the worker has heard of it.
std::vector<Member> CarriedOver(const Job& job,
                                const std::vector<MemberIdentity>& identities,
                                int64_t resume_step) {
  std::map<std::string_view, const Member*> before;
  for (const Member& member : job.members) {
    if (!member.is_lost) before.emplace(member.identity.worker, &member);
  }
  std::vector<Member> table;
  for (const MemberIdentity& identity : identities) {
    Member member;
    if (const auto it = before.find(identity.worker); it != before.end()) {
      member.step = it->second->step;
      member.halted = it->second->halted;
      member.since = it->second->since;
    } else if (auto kept = KeptAnswer(job, identity, resume_step)) {
      member.halted = std::move(kept);
    } else if (!IsNew(job)) {
      member.halted = HaltedAnswer{0, 0, /*is_blank=*/true};
    }
    member.identity = identity;
    table.push_back(std::move(member));
  }
  return table;
}

// Those who kept steps from a life in the job before are members again; whoever
// cannot go on with them drops them first.
void SeatKeepers(Turn& turn, Job& job) {
  for (const Member& member : job.members) {
    Worker& worker = *turn.state.FindWorker(member.identity.worker);
    if (std::exchange(worker.keeps_steps_of, {}).empty()) continue;
    NoteSeated(job, member.identity);
    if (member.halted.has_value() && !member.halted->is_blank) continue;
    Release(turn, worker, job.state(), "it goes on as a newcomer");
  }
}

bool HoldsNothing(const Job& job, const Member& member) {
  if (!member.halted.has_value()) return false;
  if (HoldsShards(job, member.identity.role)) {
    return member.halted->shards.empty() && member.halted->given_shards.empty();
  }
  return member.halted->is_blank || member.halted->complete_step == 0;
}

// It holds something, but not what the others go on with.
bool CannotGoOn(const Job& job, const Member& member,
                const NewestComplete& newest, int64_t resume_step) {
  if (!member.halted.has_value() || !job.sharding.is_lockstep) return false;
  if (job.sharding.shards == 0) return IsSuperseded(*member.halted, newest);
  // A worker that has handed its shards over may be behind whoever has them.
  const auto is_held = [resume_step](const HeldShard& held) {
    return held.complete_step >= resume_step;
  };
  return job.sharding.IsColocated() &&
         member.halted->complete_step < resume_step &&
         std::ranges::none_of(member.halted->shards, is_held) &&
         std::ranges::none_of(member.halted->given_shards, is_held);
}

// They copy the state from the lowest rank that holds it. If it is in shards,
// workers pull it from the holders, and holders copy it from each other.
void MarkNewcomers(Job& job, int64_t resume_step) {
  job.state_source_rank = -1;
  bool has_newcomer = false;
  const NewestComplete newest = NewestCompleteOf(job);
  for (Member& member : job.members) {
    if (member.since == 0) member.since = job.generation;
    member.is_newcomer =
        resume_step > 0 && (HoldsNothing(job, member) ||
                            CannotGoOn(job, member, newest, resume_step));
    has_newcomer |= member.is_newcomer;
    if (!member.is_newcomer && job.state_source_rank < 0) {
      job.state_source_rank = member.identity.rank;
    }
  }
  if (!has_newcomer || job.sharding.shards > 0) job.state_source_rank = -1;
}

void ResetForGeneration(Job& job) {
  job.is_assigned = false;
  job.is_recovered = false;
  job.waits_for_journal = false;
  ForgetSuspicions(job);
  // Any rank's figures replace those of the generation before.
  job.figures_rank = std::numeric_limits<int>::max();
  ClearDeadlines(job);
}

// Gives up the steps that no member holds, now that this is durable.
void RollBack(Turn& turn, Job& job) {
  const int64_t best = job.best_step;
  const int64_t kept = std::min(best, job.figures.checkpoint_step());
  const bool is_saved = std::exchange(job.saved_step, -1) == best;
  if (!is_saved) CountRollback(job);
  const bool had_set_back = std::exchange(job.clocks.set_back, 0) != 0;
  job.clocks.to_set_back = 0;
  // A coordinator that has restarted knows it from the steps alone.
  job.has_prepared |= best > 0;
  job.has_made_step |= best > 0;
  job.best_step = 0;
  job.figures.set_step(0);
  for (Member& member : job.members) {
    member.step = 0;
    turn.state.FindWorker(member.identity.worker)->step = 0;
  }
  job.promised_step = is_saved ? best : -1;
  if (is_saved) {
    turn.Emit(v1::EVENT_SEVERITY_INFO, "job.resumes", job, "",
              absl::StrCat("goes on from the checkpoint of step ", best,
                           ", which its last members left",
                           job.has_told_loss ? "" : "; no step is lost"),
              /*verdict=*/nullptr, best);
    return;
  }
  turn.Emit(
      v1::EVENT_SEVERITY_WARNING, "job.rolled_back", job, "",
      absl::StrCat(
          "nobody holds ",
          best > 0 ? absl::StrCat("step ", best) : std::string("any step"),
          " any more: goes back to ",
          kept > 0 ? absl::StrCat("the checkpoint of step ", kept)
                   : std::string("the last checkpoint or the beginning"),
          best == kept
              ? std::string()
              : absl::StrCat("; of the ",
                             Counted(static_cast<size_t>(best), "step"),
                             " that its members held, ", best - kept,
                             best - kept == 1 ? " is lost" : " are lost"),
          had_set_back ? "; so are updates that workers with clocks of their "
                         "own made beyond it"
                       : ""),
      /*verdict=*/nullptr, best);
}

// Keeps the highest clock of those that the next generation sets back.
void KeepHighestClock(Job& job) {
  if (job.clocks.highest == kUnknownClock) job.clocks.highest = 0;
  job.clocks.highest = std::max(job.clocks.highest, job.best_step);
  for (const Member& member : job.members) {
    if (member.identity.role != v1::ROLE_WORKER) continue;
    job.clocks.highest =
        std::max({job.clocks.highest, member.step,
                  member.halted.has_value() ? member.halted->applied_step : 0});
  }
}

// Nothing is lost, but all workers count from the resume step again.
void SetClocks(Turn& turn, Job& job) {
  if (job.clocks.set_back != kUnknownUpdates)
    job.clocks.set_back += job.clocks.to_set_back;
  job.clocks.to_set_back = 0;
  job.best_step = job.resume_step;
  job.figures.set_step(std::min(job.figures.step(), job.resume_step));
  for (Member& member : job.members) {
    member.step = job.resume_step;
    turn.state.FindWorker(member.identity.worker)->step = job.resume_step;
  }
}

// Returns the agreed costs of the workers' machines, from the measurements of
// any worker there: workers of a host start together, and one of them measures
// for all. Parameter servers take no part in collectives.
std::optional<MachineCosts> CostsOf(const State& state,
                                    const std::vector<const Worker*>& workers) {
  std::set<std::string_view> hosts;
  for (const Worker* const worker : workers) {
    if (worker->role == v1::ROLE_WORKER) hosts.insert(worker->host_key);
  }
  std::vector<MachineCosts> measured;
  for (const auto& [name, worker] : state.workers) {
    if (worker.costs.has_value() && hosts.contains(worker.host_key))
      measured.push_back(*worker.costs);
  }
  return AgreeOnCosts(measured);
}

// Returns one that cannot check frames, or null.
const Worker* OldestOf(const std::vector<const Worker*>& members) {
  const auto oldest = std::min_element(members.begin(), members.end(),
                                       [](const Worker* a, const Worker* b) {
                                         return a->protocol < b->protocol;
                                       });
  if (oldest == members.end() || (*oldest)->protocol >= kIntegrityProtocol)
    return nullptr;
  return *oldest;
}

// All workers that are not refused encrypt, where that is required.
v1::FrameIntegrity IntegrityOf(const Config& config,
                               const std::vector<const Worker*>& members) {
  if (config.requires_encryption) return v1::FRAME_INTEGRITY_AES_256_GCM;
  return OldestOf(members) == nullptr ? v1::FRAME_INTEGRITY_CRC32C
                                      : v1::FRAME_INTEGRITY_UNSPECIFIED;
}

// In the generation's event.
std::string UncheckedText(const State& state, const Job& job) {
  if (job.integrity != v1::FRAME_INTEGRITY_UNSPECIFIED) return "";
  std::vector<const Worker*> members;
  for (const Member& member : job.members)
    members.push_back(state.FindWorker(member.identity.worker));
  const Worker* const oldest = OldestOf(members);
  if (oldest == nullptr) return "";
  return absl::StrCat("; frames are not checked, since ", oldest->name,
                      " (version ", oldest->version, ") speaks protocol ",
                      oldest->protocol);
}

// In the event of the first generation: how good the guess was.
std::string PredictionText(const Job& job) {
  if (job.predicted_start_time == absl::InfinitePast()) return "";
  const absl::Duration late =
      absl::Trunc(job.start_time - job.predicted_start_time, absl::Seconds(1));
  if (late == absl::ZeroDuration()) return "; begins when it was expected to";
  return absl::StrCat("; begins ",
                      absl::FormatDuration(absl::AbsDuration(late)),
                      late > absl::ZeroDuration() ? " later" : " earlier",
                      " than was expected");
}

int HostCount(const Job& job) {
  std::set<std::string_view> hosts;
  for (const Member& member : job.members) {
    hosts.insert(member.identity.host_key);
  }
  return static_cast<int>(hosts.size());
}

// Returns what all workers of `job` have answered alike.
std::optional<PreparedAnswer> AgreedAnswer(const Job& job) {
  for (const Member& member : job.members) {
    if (!member.is_lost && member.identity.role == v1::ROLE_WORKER) {
      return member.prepared;
    }
  }
  return std::nullopt;
}

int PreparedCount(const Job& job) {
  return static_cast<int>(
      std::count_if(job.members.begin(), job.members.end(),
                    [](const Member& m) { return m.prepared.has_value(); }));
}

void StartTraining(Turn& turn, Job& job) {
  job.stage = stage::Running{};
  job.has_trained = true;
  job.has_prepared = true;
  job.agreed = AgreedAnswer(job);
  job.last_progress = turn.now;
  NoteStarted(turn, job);
  job.command_loss.clear();
  const std::string closing = ClosingText(job);
  job.message =
      closing.empty() ? absl::StrCat("trains on ", RanksText(job)) : closing;
  turn.Touch(job);
  for (const Member& member : job.members) {
    const Worker* const worker = turn.state.FindWorker(member.identity.worker);
    turn.Do(SendStart{worker->session, job.generation});
  }
  turn.Emit(
      v1::EVENT_SEVERITY_INFO, "job.running", job, "",
      closing.empty()
          ? absl::StrCat("generation ", job.generation, " trains on ",
                         RanksText(job), " from step ", job.resume_step + 1)
          : absl::StrCat("generation ", job.generation, " ", closing));
  if (job.cancel_reason.has_value()) {
    StopMembers(turn, job);  // within the same time
  }
  turn.ScheduleSoon();
}

// A member reports that it has prepared when the job is past that.
void OnLatePrepared(Turn& turn, Job& job, const Worker& worker,
                    const Member& member) {
  if (member.prepared.has_value()) {
    // It attached again and repeats its message, so it has missed the start.
    turn.Do(SendStart{worker.session, job.generation});
    return;
  }
  // Only the coordinator before the restart knew whether the others were
  // started.
  BeginHalt(turn, job, IntentOf(job),
            VerdictOnNobody(job,
                            "the coordinator restarted before all members of "
                            "the generation had started",
                            turn.time));
}

// Members that prepared something else are evicted; where nobody can tell which
// of them those are, the job fails.
void OnPreparedDifferently(Turn& turn, Job& job) {
  const std::vector<OddMember> odd = OddlyPrepared(job);
  if (odd.empty()) {
    BeginHalt(turn, job, HaltIntent::kFail, VerdictOnPrepared(job, turn.time));
    return;
  }
  for (const OddMember& member : odd) {
    OnOwnFailure(turn, job,
                 *MemberOf(turn.state, *turn.state.FindWorker(member.worker)),
                 EvidenceOf(v1::EVIDENCE_KIND_MISMATCH, member.worker,
                            member.difference),
                 ExitCode::kPlanMismatch);
  }
}

// `job` begins, or begins again, with its new generation.
void NoteStay(const State& state, Job& job) {
  job.stay_began = job.generation;
  const auto first = state.jobs.find(state.first_lacking);
  const bool overtakes =
      first != state.jobs.end() && IsAhead(first->second, job);
  job.place.overtook = overtakes ? first->first : 0;
}

}  // namespace

void SetMessage(Turn& turn, Job& job, std::string message) {
  if (job.message == message) return;
  job.message = std::move(message);
  turn.Touch(job);
}

bool IsForming(const Job& job) {
  return job.state() == v1::JOB_STATE_PREPARING && !job.is_assigned;
}

void TryGather(Turn& turn, Job& job) {
  if (job.ending.has_value()) return;
  if (IsWaiting(job)) {
    Reform(turn, job);
    return;
  }
  auto& gathering = std::get<stage::Gathering>(job.stage);
  gathering.gang_deadline = kNever;
  if (IsOutdated(turn.state)) {
    SetMessage(turn, job, kOutdatedText);
    return;
  }
  if (!turn.state.journal_error.empty()) {
    SetMessage(
        turn, job,
        absl::StrCat("waits for the journal: ", turn.state.journal_error));
    return;
  }
  const int servers = job.sharding.servers;
  const IdlePool idle(turn.state, job);
  const IdlePool idle_ps(turn.state, job, v1::ROLE_PARAMETER_SERVER);
  const Hosts hosts = idle.HostsFor(job.min_workers);
  const Hosts server_hosts = idle_ps.HostsFor(servers);
  const int idle_count = idle.Count(hosts);
  const int idle_servers = idle_ps.Count(server_hosts);
  const int most = MostToBegin(turn.state, job);
  MonotonicTime gang_time =
      GangTime(job, most, idle_count, idle.LastJoin(hosts), turn.now);
  if (idle_count < most) {
    gang_time = std::max(gang_time, turn.state.gather_not_before);
  }
  if (idle_servers < servers) gang_time = MonotonicTime::InfiniteFuture();
  if (gang_time > turn.now) {
    gathering.gang_deadline = gang_time;
    SetMessage(turn, job, GatheringMessage(job, idle_count, idle_servers));
    return;
  }
  Formation formation;
  formation.workers = idle.Packed(hosts);
  if (idle_count > most) formation.workers.resize(static_cast<size_t>(most));
  const std::vector<const Worker*> all_servers = idle_ps.Packed(server_hosts);
  formation.workers.insert(formation.workers.end(), all_servers.begin(),
                           all_servers.begin() + servers);
  FormGeneration(turn, job, formation);
}

void FormGeneration(Turn& turn, Job& job, const Formation& formation) {
  const int64_t updates = UpdatesBeyond(job, formation.resume_step);
  if (updates != kUnknownUpdates)
    job.clocks.to_set_back = updates - job.clocks.set_back;
  KeepHighestClock(job);
  std::vector<MemberIdentity> identities = AssignRanks(formation.workers);
  job.placements =
      PlaceShardsOf(turn.state, job, identities, formation.shard_step);
  const bool stay_begins = job.members.empty();
  job.members = CarriedOver(job, identities, formation.resume_step);
  SeatKeepers(turn, job);
  // A number is used only once, even if its record never becomes durable, so
  // messages of one generation cannot be taken for another's.
  job.generation = ++turn.state.last_generation;
  NoteFormed(turn.state, job.generation, turn.state.incarnation);
  // The workers that measured may have left since; then the old costs stay.
  if (auto costs = CostsOf(turn.state, formation.workers)) job.costs = costs;
  job.integrity = IntegrityOf(turn.config, formation.workers);
  MarkNewcomers(job, formation.resume_step);
  if (IsNew(job)) job.first_generation = job.generation;
  if (stay_begins) NoteStay(turn.state, job);
  job.resume_step = formation.resume_step;
  job.is_rollback = formation.is_rollback;
  job.closing = formation.closing;
  job.has_closed = false;
  if (job.trains_with > 0 && job.closing == Closing::kNone) {
    job.trains_with = MemberCount(job, v1::ROLE_WORKER) < job.min_workers
                          ? SeasonedCount(job)
                          : 0;
  }
  job.stage = stage::Preparing{};
  job.message = absl::StrCat("forms generation ", job.generation);
  ResetForGeneration(job);
  for (const MemberIdentity& identity : identities) {
    Worker& worker = *turn.state.FindWorker(identity.worker);
    if (worker.state == v1::WORKER_STATE_IDLE) {
      worker.state = v1::WORKER_STATE_ASSIGNED;
    }
    worker.job_id = job.id;
    worker.rank = identity.rank;
    // As far as it knows; it is told so if the generation is given up.
    if (worker.rehearsal.has_value()) {
      worker.generation = std::exchange(worker.rehearsal, std::nullopt)->number;
    }
  }
  // It may have claimed more than it took.
  turn.ScheduleSoon();
  turn.Touch(job);
  std::vector<int64_t> since;
  for (const Member& member : job.members) since.push_back(member.since);
  turn.Persist(GenerationFormedRecord{
      job.generation, job.id, std::move(identities), formation.resume_step,
      turn.time, formation.is_rollback,
      job.placements == nullptr ? std::vector<ShardPlacement>()
                                : *job.placements,
      std::move(since), turn.state.incarnation});
}

void AbandonFormation(Turn& turn, Job& job) {
  for (const Member& member : job.members) {
    Worker* const worker = turn.state.FindWorker(member.identity.worker);
    if (worker != nullptr && !member.is_lost) ReturnToPool(turn, *worker);
  }
  job.members.clear();
  job.generation = job.first_generation = 0;
  job.stage = stage::Gathering{turn.now};
  turn.Touch(job);
  turn.ScheduleSoon();
}

void OnGenerationDurable(Turn& turn, const GenerationFormedRecord& record) {
  Job* const job = turn.state.FindJob(record.job_id);
  if (job == nullptr || job->generation != record.generation ||
      !IsForming(*job) || job->ending.has_value()) {
    return;  // Overtaken by a loss or a cancel; the generation is never used.
  }
  // If the previous generation never began, not all members have prepared it.
  const bool is_unsettled = job->counted_since != 0 && !job->has_trained;
  if (job->is_rollback || !job->sharding.is_lockstep || is_unsettled) {
    job->counted_since = job->generation;
  }
  // Members hear of the generation only now: a coordinator that crashed earlier
  // would give its number out again.
  job->is_assigned = true;
  job->told_generation = job->generation;
  // Its members apply this step before any other. As long as nobody had heard of
  // it, those who do not hold the step could be of use.
  job->best_step = std::max(job->best_step, job->resume_step);
  job->has_trained = false;
  job->absence.has_waited = false;
  if (job->is_rollback) DropOvertaken(turn, *job);
  job->last_progress = turn.now;
  NoteAssigned(turn, *job);
  if (job->is_rollback) {
    RollBack(turn, *job);
  } else if (!job->sharding.is_lockstep) {
    SetClocks(turn, *job);
  }
  job->has_told_loss = false;
  const bool is_first = IsNew(*job);
  if (is_first) job->start_time = turn.time;
  NoteMembers(*job, turn.time);
  job->message = absl::StrCat("0 of ", job->members.size(), " have prepared");
  turn.Touch(*job);
  for (Member& member : job->members) {
    member.halted.reset();
    Worker& worker = *turn.state.FindWorker(member.identity.worker);
    if (member.identity.role == v1::ROLE_PARAMETER_SERVER) {
      // It may have been one step ahead.
      worker.step = member.step = job->resume_step;
    } else if (member.is_newcomer) {
      worker.step = member.step = 0;
    }
    SendAssignmentTo(turn, *job, member);
  }
  turn.Emit(
      v1::EVENT_SEVERITY_INFO, "job.assigned", *job, "",
      absl::StrCat("generation ", job->generation, ": ", RanksText(*job),
                   " on ", Counted(HostCount(*job), "host"), ", after step ",
                   job->resume_step, UncheckedText(turn.state, *job),
                   is_first ? PredictionText(*job) : ""));
}

void OnGenerationNotDurable(Turn& turn, const GenerationFormedRecord& record) {
  Job* const job = turn.state.FindJob(record.job_id);
  if (job == nullptr || job->generation != record.generation ||
      !IsForming(*job) || job->ending.has_value()) {
    return;
  }
  if (IsNew(*job)) {
    AbandonFormation(turn, *job);
    return;
  }
  // Its members are still halted, with their state; Reform waits until the
  // journal works again.
  ToHalting(*job);
  ResolveHalt(turn, *job);
}

void SendAssignmentTo(Turn& turn, const Job& job, const Member& member) {
  Worker& worker = *turn.state.FindWorker(member.identity.worker);
  worker.generation = job.generation;
  worker.phase = v1::PHASE_PREPARE;
  worker.collective_sequence = 0;
  worker.waiting_for_rank = -1;
  const int rank = member.identity.rank;
  SendAssignment assignment;
  assignment.session = worker.session;
  assignment.generation = job.generation;
  assignment.job_id = job.id;
  assignment.self = member.identity;
  assignment.world_size = MemberCount(job, v1::ROLE_WORKER);
  // Ranks of a container are consecutive, so only these are searched.
  const auto first = static_cast<size_t>(rank - member.identity.local_rank);
  int local = member.identity.local_rank + 1;
  while (first + local < job.members.size() &&
         job.members[first + local].identity.role == member.identity.role &&
         ContainerOf(job.members[first + local].identity) ==
             ContainerOf(member.identity)) {
    ++local;
  }
  assignment.local_world_size = local;
  assignment.resume_step = job.resume_step;
  assignment.state_source_rank = job.state_source_rank;
  assignment.is_newcomer = member.is_newcomer;
  assignment.costs = job.costs;
  assignment.integrity = job.integrity;
  assignment.placements = job.placements;
  assignment.makes_no_step = job.closing != Closing::kNone;
  assignment.least_workers = job.trains_with > 0
                                 ? std::min(job.trains_with, job.min_workers)
                                 : job.min_workers;
  assignment.formed_by = turn.state.incarnation;
  turn.Do(std::move(assignment));
}

void OnPrepared(Turn& turn, Worker& worker, const PreparedReceived& prepared) {
  if (IsRehearsal(worker, prepared.generation)) {
    OnRehearsed(turn, *turn.state.FindJob(worker.rehearsal->job_id), worker,
                prepared);
    return;
  }
  Job* const job = turn.state.JobOf(worker);
  Member* const member = MemberOf(turn.state, worker);
  if (member == nullptr || prepared.generation != job->generation ||
      job->ending.has_value()) {
    return;
  }
  if (job->state() == v1::JOB_STATE_RUNNING ||
      job->state() == v1::JOB_STATE_STOPPING) {
    OnLatePrepared(turn, *job, worker, *member);
    return;
  }
  if (job->state() != v1::JOB_STATE_PREPARING || !job->is_assigned) return;
  member->prepared =
      PreparedAnswer{prepared.plan_hash, prepared.data_fingerprint,
                     prepared.summary, prepared.data};
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
      OnPreparedDifferently(turn, *job);
      return;
  }
}

void ClearDeadlines(Job& job) {
  ClearDeadlines(job.stage);
  job.suspicions.deadline = MonotonicTime::InfiniteFuture();
  job.reattach_deadline = MonotonicTime::InfiniteFuture();
  job.hand_over_deadline = MonotonicTime::InfiniteFuture();
  job.absence.return_deadline = MonotonicTime::InfiniteFuture();
  job.absence.holders_deadline = MonotonicTime::InfiniteFuture();
}

void ForgetSuspicions(Job& job) {
  job.suspicions.reports.clear();
  job.suspicions.answered = 0;
  job.suspicions.probing.reset();
  job.suspicions.probes = 0;
  const EarlyProbes& early = job.suspicions.early_probes;
  job.suspicions.early_probes = {
      .in_all = early.stay_in_queue ? early.in_all : 0,
      .stay_in_queue = early.stay_in_queue};
  job.suspicions.deadline = MonotonicTime::InfiniteFuture();
}

}  // namespace ringmaster::coordinator
