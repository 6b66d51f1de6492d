#include "server/coordinator/core/life/recovery.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "server/coordinator/core/account/audit.h"
#include "server/coordinator/core/account/memberships.h"
#include "server/coordinator/core/account/verdict.h"
#include "server/coordinator/core/life/absence.h"
#include "server/coordinator/core/life/attach.h"
#include "server/coordinator/core/life/cordon.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/halt.h"
#include "server/coordinator/core/life/job_change.h"
#include "server/coordinator/core/life/job_end.h"
#include "server/coordinator/core/life/job_queue.h"
#include "server/coordinator/core/life/own_failure.h"
#include "server/coordinator/core/life/quarantine.h"
#include "server/coordinator/core/life/queues.h"
#include "server/coordinator/core/life/reform.h"
#include "server/coordinator/core/life/suspension.h"
#include "server/coordinator/core/life/training.h"
#include "server/coordinator/core/placement/shards.h"
#include "server/coordinator/core/state/formed.h"

namespace ringmaster::coordinator {
namespace {

// Returns the intent of a halt with this verdict. Some culprits are still
// members: a member that fails by its own fault, one that differs from others,
// the ends of a broken link.
HaltIntent IntentOf(const v1::Verdict& verdict) {
  if (verdict.decision() != v1::VERDICT_DECISION_FAIL_JOB)
    return HaltIntent::kReform;
  const bool is_loss =
      !verdict.worker().empty() && !verdict.evidence().empty() &&
      verdict.evidence(0).kind() != v1::EVIDENCE_KIND_SELF_REPORT &&
      verdict.evidence(0).kind() != v1::EVIDENCE_KIND_MISMATCH;
  return is_loss ? HaltIntent::kReform : HaltIntent::kFail;
}

// The table of a new generation. Where the record does not tell, a member of the
// one before that was not lost has been in the job since then.
std::vector<Member> MembersOf(const GenerationFormedRecord& record,
                              const std::vector<Member>& before) {
  std::map<std::pair<std::string_view, uint64_t>, int64_t> since;
  for (const Member& member : before) {
    if (member.is_lost) continue;
    since.emplace(std::pair(std::string_view(member.identity.worker),
                            member.identity.incarnation),
                  member.since);
  }
  std::vector<Member> members;
  for (const MemberIdentity& identity : record.members) {
    Member member;
    member.identity = identity;
    member.identity.rank = static_cast<int>(members.size());
    member.step = record.resume_step;
    const auto it = since.find(
        std::pair(std::string_view(identity.worker), identity.incarnation));
    if (member.identity.rank < static_cast<int>(record.since.size())) {
      member.since = record.since[member.identity.rank];
    } else {
      member.since = it == since.end() ? record.generation : it->second;
    }
    members.push_back(std::move(member));
  }
  return members;
}

// Applies one record.
struct FoldVisitor {
  State& state;

  absl::Status operator()(const JobCreatedRecord& record) {
    // The record of a rebuilt job may follow that of a job submitted meanwhile.
    if (record.number <= 0 ||
        !state.jobs.emplace(record.number, JobOf(record)).second) {
      return absl::DataLossError(absl::StrCat(
          "job ", record.id, " comes after number ", state.last_job_number));
    }
    state.last_job_number = std::max(state.last_job_number, record.number);
    return absl::OkStatus();
  }

  absl::Status operator()(const GenerationFormedRecord& record) {
    Job* const job = state.FindJob(record.job_id);
    if (job == nullptr || IsEnded(job->state()))
      return UnknownJob(record.job_id);
    // Jobs that are rebuilt side by side may be recorded in any order.
    if (record.generation <= job->generation || record.members.empty()) {
      return absl::DataLossError(absl::StrCat(
          "generation ", record.generation, " of ", record.members.size(),
          " members comes after generation ", job->generation));
    }
    state.last_generation = std::max(state.last_generation, record.generation);
    NoteFormed(state, record.generation, record.formed_by);
    job->stage = stage::Preparing{};
    job->has_told_loss = false;
    if (job->generation == 0) job->first_generation = record.generation;
    // A first one sets no clock back; the numbers of others are not journaled.
    const bool is_known = job->sharding.is_lockstep || record.is_rollback ||
                          (job->members.empty() && record.resume_step == 0);
    job->clocks.set_back = is_known ? 0 : kUnknownUpdates;
    job->clocks.highest = is_known ? 0 : kUnknownClock;
    if (job->members.empty()) job->stay_began = record.generation;
    const int64_t generation_before =
        std::exchange(job->generation, record.generation);
    const int64_t resumed_before =
        std::exchange(job->resume_step, record.resume_step);
    // A second one without a step in between is the same rollback: the first
    // one's generation was replaced before it was used.
    const bool is_saved = std::exchange(job->saved_step, -1) == job->best_step;
    if (record.is_rollback && !is_saved &&
        (job->setbacks.rollbacks == 0 || job->best_step > 0)) {
      CountRollback(*job);
    }
    if (record.is_rollback || !job->sharding.is_lockstep) {
      job->counted_since = record.generation;
    }
    // The generation before has made steps: reported, or seen by where this one
    // resumes.
    const bool made_step = job->best_step > resumed_before;
    if (made_step || record.resume_step > resumed_before) NoteProven(*job);
    const bool has_steps = std::max(job->best_step, record.resume_step) > 0;
    job->has_made_step |= has_steps;
    job->has_prepared |= has_steps;
    // All steps that were believed until then; what verdicts say beyond that was
    // dropped, or is rolled back.
    job->best_step = record.resume_step;
    if (job->start_time == absl::InfinitePast()) job->start_time = record.time;
    for (auto& [number, other] : state.jobs) {
      if (other.absence.members.empty()) continue;
      for (const MemberIdentity& member : record.members) {
        NoteSeated(other, member);
      }
    }
    // The generation before has made a step: what members of earlier ones hold of
    // that is of another sum.
    std::erase_if(job->absence.members, [&](const AbsentMember& absent) {
      return record.is_rollback ||
             (made_step && absent.generation < generation_before);
    });
    job->members = MembersOf(record, job->members);
    job->placements = PlacementsOf(*job, record);
    NoteMembers(*job, record.time);
    return absl::OkStatus();
  }

  // May come after the end, if the journal failed in between.
  absl::Status operator()(const CancelRequestedRecord& record) {
    Job* const job = state.FindJob(record.job_id);
    if (job == nullptr) return UnknownJob(record.job_id);
    job->cancel_reason = record.reason;
    return absl::OkStatus();
  }

  absl::Status operator()(const VerdictReachedRecord& record) {
    Job* const job = state.FindJob(record.job_id);
    if (job == nullptr) return UnknownJob(record.job_id);
    if (IsEnded(job->state())) return absl::OkStatus();
    job->verdict = record.verdict;
    if (job->members.empty()) return absl::OkStatus();  // it is suspended
    // A record that was set aside while the journal failed may come after the
    // next generation, which may be a rollback.
    if (record.verdict.generation() != job->generation) return absl::OkStatus();
    job->best_step = std::max(job->best_step, record.verdict.step());
    job->stage = stage::Halting{IntentOf(record.verdict)};
    const int rank = record.verdict.rank();
    if (IntentOf(*job) == HaltIntent::kReform && rank >= 0 &&
        rank < static_cast<int>(job->members.size())) {
      job->members[rank].is_lost = true;
      AddAbsent(*job, job->members[rank],
                record.verdict.evidence().empty()
                    ? v1::EVIDENCE_KIND_UNSPECIFIED
                    : record.verdict.evidence(0).kind(),
                MonotonicTime());
    }
    return absl::OkStatus();
  }

  absl::Status operator()(const JobEndedRecord& record) {
    Job* const job = state.FindJob(record.job_id);
    if (job == nullptr || IsEnded(job->state()))
      return UnknownJob(record.job_id);
    if (!IsEnded(record.state)) {
      return absl::DataLossError(
          absl::StrCat("job ", record.job_id, " ended as ",
                       static_cast<int>(record.state), ", which is no end"));
    }
    job->absence.members.clear();
    job->stage = stage::Ended{record.state};
    job->exit_code = record.exit_code;
    job->message = record.message;
    job->parameters_hash = record.parameters_hash;
    job->verdict = record.verdict;
    job->figures = record.figures;
    job->sample = record.sample;
    job->bench = record.bench;
    job->best_step = std::max(job->best_step, record.figures.step());
    job->end_time = record.time;
    NoteNoMembers(*job, record.time);
    job->end_order = ++state.last_end_order;
    if (job->state() == v1::JOB_STATE_FAILED) ForgetFailures(state, job->id);
    return absl::OkStatus();
  }

  absl::Status operator()(const AuditedRecord& entry) {
    OnAudited(state, entry);
    return absl::OkStatus();
  }

  absl::Status operator()(const CordonedRecord& record) {
    ApplyCordon(state, record);
    return absl::OkStatus();
  }

  absl::Status operator()(const QueuesChangedRecord& record) {
    ApplyQueues(state, record);
    return absl::OkStatus();
  }

  absl::Status operator()(const JobChangedRecord& record) {
    Job* const job = state.FindJob(record.job_id);
    if (job == nullptr) return UnknownJob(record.job_id);
    ApplyChange(*job, record);
    return absl::OkStatus();
  }

  absl::Status operator()(const JobSuspendedRecord& record) {
    Job* const job = state.FindJob(record.job_id);
    if (job == nullptr) return UnknownJob(record.job_id);
    // One that was set aside while the journal failed may come after the next
    // generation, or after the end.
    if (record.generation == job->generation && !IsEnded(job->state()))
      ApplySuspension(*job, record);
    return absl::OkStatus();
  }

  // Expired ones end when the coordinator begins.
  absl::Status operator()(const HostQuarantinedRecord& record) {
    if (record.host_key.empty()) return absl::OkStatus();  // a filler
    state.quarantines.push_back(
        {record.host_key, record.host, record.end_time, record.reason,
         MonotonicTime::InfiniteFuture(),
         record.is_of_job ? record.job_id : std::string(), record.exit_code,
         record.is_unfit});
    return absl::OkStatus();
  }

 private:
  static absl::Status UnknownJob(const std::string& id) {
    return absl::DataLossError(
        absl::StrCat("job ", id, " was never created, or has ended before"));
  }
};

// `member` of `job` is in a later generation of another job by now, so it was
// released, or lost, and that was not recorded: the job re-forms without it.
void LoseToOther(Job& job, Member& member) {
  member.is_lost = true;
  if (job.state() == v1::JOB_STATE_HALTING) return;
  job.stage = stage::Halting{};
  job.verdict = VerdictOnNobody(
      job,
      absl::StrCat(Sv(NameOf(member.identity.role)), " ",
                   member.identity.worker, " is in another job by now"),
      absl::UnixEpoch());
}

// Later generations come first: a worker is in one only.
void Resume(State& state, Job& job) {
  for (Member& member : job.members) {
    if (!member.is_lost && state.FindWorker(member.identity.worker) != nullptr)
      LoseToOther(job, member);
  }
  state.active_jobs.insert(job.number);
  const bool is_cancelled = job.cancel_reason.has_value();
  if (auto* const halting = std::get_if<stage::Halting>(&job.stage)) {
    if (is_cancelled && halting->intent == HaltIntent::kReform)
      halting->intent = HaltIntent::kCancel;
  } else if (is_cancelled) {
    job.stage = stage::Stopping{};
  } else {
    job.stage = stage::Running{};
  }
  job.message =
      "waits for its members to attach again after the "
      "coordinator's restart";
  job.is_assigned = true;
  job.told_generation = job.generation;
  job.is_recovered = true;
  job.has_trained = true;
  for (const Member& member : job.members) {
    if (member.is_lost) continue;
    Worker worker = DetachedWorker(member.identity, job);
    worker.join_order = ++state.last_join_order;
    state.workers.emplace(worker.name, std::move(worker));
  }
}

void BeginRecovered(Turn& turn, Job& job) {
  job.last_progress = turn.now;
  job.reattach_deadline = turn.now + turn.config.reattach_budget;
  if (auto* const stopping = std::get_if<stage::Stopping>(&job.stage)) {
    stopping->deadline = job.reattach_deadline + StopPatience(job, turn.config);
  }
  turn.Touch(job);
  turn.Emit(v1::EVENT_SEVERITY_INFO, "job.recovered", job, "", job.message);
  if (auto* const halting = std::get_if<stage::Halting>(&job.stage)) {
    halting->deadline = job.reattach_deadline;
    ResolveHalt(turn, job);
  }
}

absl::Status Contradiction(const std::string& what) {
  return WithExitCode(
      absl::DataLossError(absl::StrCat(
          what,
          ". Restore the state directory from a backup, or move it away to "
          "start anew.")),
      ExitCode::kCheckpointCorrupt);
}

}  // namespace

absl::StatusOr<State> Fold(const std::vector<JournalRecord>& records,
                           const Config& config) {
  State state;
  state.is_recovered = true;
  for (size_t i = 0; i < records.size(); ++i) {
    const absl::Status status = std::visit(FoldVisitor{state}, records[i]);
    if (!status.ok()) {
      return Contradiction(
          absl::StrCat("journal record ", i + 1, " (", Sv(TypeOf(records[i])),
                       ") contradicts those before it: ", status.message()));
    }
  }
  PruneEndedJobs(state, config.max_ended_jobs);
  std::map<int64_t, Job*, std::greater<>> begun;
  for (auto& [number, job] : state.jobs) {
    const bool is_queued = job.state() == v1::JOB_STATE_QUEUED;
    if (!IsEnded(job.state()) && !is_queued) {
      begun.emplace(job.generation, &job);
    }
  }
  for (const auto& [generation, job] : begun) Resume(state, *job);
  state.recovered_generation = state.last_generation;
  return state;
}

void BeginRecovered(Turn& turn) {
  if (turn.state.is_recovered) {
    turn.state.gather_not_before = turn.now + kReturnTime;
  }
  BeginQuarantines(turn);
  BeginCordons(turn);
  turn.state.used_to = turn.state.use_saved = turn.now;
  // Workers known from the journal cannot have been heard before.
  for (auto& [name, worker] : turn.state.workers) worker.last_heard = turn.now;
  for (Job* const job : turn.state.ActiveJobs()) BeginRecovered(turn, *job);
  turn.ScheduleSoon();
}

}  // namespace ringmaster::coordinator
