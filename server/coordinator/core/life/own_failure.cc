#include "server/coordinator/core/life/own_failure.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/coordinator/core/account/incident.h"
#include "server/coordinator/core/account/verdict.h"
#include "server/coordinator/core/life/halt.h"
#include "server/coordinator/core/life/hand_over.h"
#include "server/coordinator/core/life/membership.h"
#include "server/coordinator/core/life/quarantine.h"
#include "server/coordinator/core/life/reform.h"
#include "server/coordinator/core/placement/idle_pool.h"

namespace ringmaster::coordinator {
namespace {

// It had not prepared its generation, as far as this coordinator knows.
bool WasPreparing(const Job& job, const Member& member) {
  return job.is_assigned && !job.is_recovered && !member.prepared.has_value() &&
         !member.halted.has_value();
}

// It was lost before its generation had made a step.
bool WasStarting(const Job& job, const Member& member) {
  // Commands make no step, so nothing shows when they have started.
  return !job.runs_commands && job.is_assigned && !job.is_recovered &&
         !member.halted.has_value() && job.best_step <= job.resume_step;
}

// Its process has ended, or hangs.
bool IsEarlyLoss(v1::EvidenceKind kind) {
  return kind == v1::EVIDENCE_KIND_STREAM_BROKEN ||
         kind == v1::EVIDENCE_KIND_NO_PROGRESS;
}

bool HaveOthersPrepared(const Job& job) {
  return std::all_of(job.members.begin(), job.members.end(),
                     [](const Member& member) {
                       return member.is_lost || member.prepared.has_value();
                     });
}

// The hosts that `job` leaves out because a worker of theirs failed by its own
// fault, with `exit_code` if that is not 0.
std::set<std::string> FailedHosts(const State& state, const Job& job,
                                  int exit_code) {
  std::set<std::string> hosts;
  for (const HostQuarantine& quarantine : state.quarantines) {
    if (quarantine.job_id == job.id && quarantine.exit_code != 0 &&
        (exit_code == 0 || quarantine.exit_code == exit_code)) {
      hosts.insert(quarantine.host);
    }
  }
  return hosts;
}

// Some host of the pool, cordoned or not, or of a member that may come back, with
// workers of that role has not failed with `exit_code`; 0: with any.
bool HasUntriedHost(const State& state, const Job& job, v1::Role role,
                    int exit_code) {
  const auto is_untried = [&](const auto& entry) {
    const Worker& worker = entry.second;
    return worker.role == role && worker.state != v1::WORKER_STATE_DRAINING &&
           (worker.job_id == job.id || worker.session == 0 ||
            IsFitFor(job, worker)) &&
           !HasFailedOn(state, job, worker.host_key, exit_code);
  };
  const auto may_come_back = [&](const Member& member) {
    return member.is_lost && member.identity.role == role &&
           !HasFailedOn(state, job, member.identity.host_key, exit_code);
  };
  return std::any_of(state.workers.begin(), state.workers.end(), is_untried) ||
         std::any_of(job.members.begin(), job.members.end(), may_come_back);
}

bool IsLast(const Job& job, const Member& member) {
  return std::none_of(job.members.begin(), job.members.end(),
                      [&](const Member& other) {
                        return &other != &member && !other.is_lost &&
                               other.identity.role == member.identity.role;
                      });
}

// `job` has made steps on some host without failing there with `exit_code`.
bool HasGoneWell(const State& state, const Job& job, int exit_code) {
  return std::any_of(job.proven_hosts.begin(), job.proven_hosts.end(),
                     [&](const std::string& host) {
                       return !HasFailedOn(state, job, host, exit_code);
                     });
}

std::string SameText(const std::set<std::string>& hosts) {
  if (hosts.size() <= 1) return "";
  return absl::StrCat("; the same on hosts ", absl::StrJoin(hosts, ", "));
}

// Returns why it is the job's fault that `exit_code` happens wherever it is
// tried, at last to `member`.
std::optional<std::string> Everywhere(const State& state, const Job& job,
                                      const Member& member, int exit_code) {
  const std::set<std::string> hosts = FailedHosts(state, job, exit_code);
  const bool is_many = hosts.size() >= static_cast<size_t>(kMostFailures);
  if (is_many ||
      (IsLast(job, member) &&
       !HasUntriedHost(state, job, member.identity.role, exit_code))) {
    return SameText(hosts);
  }
  return std::nullopt;
}

// Counts a failure after the best step, or the one that `member` says it has made,
// once a generation. One after another step, also from before a rollback, is another
// story.
int CountFailure(Job& job, const Member& member) {
  const int64_t step = std::max(job.best_step, member.step);
  if (step != job.setbacks.failed_step) job.setbacks.failures = 0;
  job.setbacks.failed_step = step;
  if (job.setbacks.failed_generation != job.generation) ++job.setbacks.failures;
  job.setbacks.failed_generation = job.generation;
  return job.setbacks.failures;
}

// Returns true if `job` would go on without `member`: enough others are there, or can
// join. Those who leave are, since they stay until others hold what they hold.
bool IsSpare(const State& state, const Job& job, const Member& member) {
  if (IsLast(job, member) || job.is_benchmark || job.runs_commands)
    return false;
  const v1::Role role = member.identity.role;
  const int idle = IdlePool(state, job, role).Count(Hosts::kSound);
  return AliveCount(job, role) - 1 + idle >= LeastCount(job, role);
}

// `member`, which has prepared, says that a field of `job` must be corrected. Returns
// true if that ends the job: it is the second one to say so, or the job would not go on
// without it anyway.
bool MustBeCorrected(const State& state, Job& job, const Member& member) {
  const auto life_of = [](const Member& one) {
    return Setbacks::Life(one.identity.worker, one.identity.incarnation);
  };
  if (job.setbacks.usage_witnesses.contains(life_of(member)) ||
      !IsSpare(state, job, member)) {
    return true;
  }
  for (const Member& other : job.members) {
    if (!other.is_lost) job.setbacks.usage_witnesses.insert(life_of(other));
  }
  job.setbacks.usage_witnesses.erase(life_of(member));
  return false;
}

// Counts the failure of `member`, which `worker` is, against its host. Returns
// why it is the job's fault all the same; nullopt if it is not.
std::optional<std::string> NoteOwnFailure(Turn& turn, Job& job,
                                          const Member& member,
                                          const Worker& worker,
                                          const v1::Verdict& verdict,
                                          bool says_it_was_preparing) {
  const bool goes_well_elsewhere =
      GoesWellElsewhere(turn.state, job, member.identity.role, worker.host_key);
  const bool was_preparing =
      says_it_was_preparing ||
      verdict.evidence(0).kind() == v1::EVIDENCE_KIND_MISMATCH;
  // The job file is wrong, unless others do well with it.
  if (verdict.exit_code() == static_cast<int>(ExitCode::kUsage) &&
      (!goes_well_elsewhere ||
       (!was_preparing && MustBeCorrected(turn.state, job, member)))) {
    return "";
  }
  LeaveOutHost(turn, job, worker,
               {verdict.summary(), verdict.exit_code(), was_preparing});
  if (was_preparing) {
    if (goes_well_elsewhere) return std::nullopt;
    return Everywhere(turn.state, job, member, verdict.exit_code());
  }
  // No number of voices of newcomers makes two of members; see MustBeCorrected.
  if (verdict.exit_code() == static_cast<int>(ExitCode::kUsage))
    return std::nullopt;
  if (CountFailure(job, member) >= kMostFailures) {
    return absl::StrCat("; so it was ", job.setbacks.failures,
                        " times without getting beyond step ",
                        job.setbacks.failed_step);
  }
  // Whoever held the state has failed, unless others have left where it went well.
  if (!IsLast(job, member) || HasGoneWell(turn.state, job, verdict.exit_code()))
    return std::nullopt;
  return Everywhere(turn.state, job, member, verdict.exit_code());
}

// Returns true if nobody but `member` holds some of what `job` has made, as far as
// is known. Newcomers of a generation that has made no step may not have copied it.
bool HoldsAlone(const Job& job, const Member& member) {
  if (job.sharding.shards > 0) return IsLastOfPlaced(job, member.identity.rank);
  const int64_t step = std::max(job.best_step, member.step);
  const auto holds = [&](const Member& other) {
    return !other.is_lost && other.identity.role == v1::ROLE_WORKER &&
           (!other.is_newcomer || step > job.resume_step);
  };
  return step > 0 && holds(member) &&
         std::count_if(job.members.begin(), job.members.end(), holds) == 1;
}

// Lets `member`, which `worker` is, stay until it has handed over what it alone holds;
// returns whether somebody could take it, or it could be written. So it is if it could
// not read a file: that happens before a step is computed of it, and leaves the state
// as it was.
bool StaysToHandOver(const State& state, const Job& job, const Member& member,
                     Worker& worker, ExitCode exit_code) {
  const bool is_asked = job.state() == v1::JOB_STATE_RUNNING ||
                        (job.state() == v1::JOB_STATE_HALTING &&
                         IntentOf(job) == HaltIntent::kReform);
  if (exit_code != ExitCode::kUnreadable || worker.has_failed || !is_asked ||
      job.runs_commands || job.cancel_reason.has_value() ||
      job.gives_way.has_value() || worker.session == 0 ||
      worker.protocol < kLeaveProtocol ||
      member.identity.role != v1::ROLE_WORKER ||
      HolderRole(job) != v1::ROLE_WORKER || !HoldsAlone(job, member)) {
    return false;
  }
  worker.has_failed = true;
  if (CanBeRelieved(state, job) || CanSave(state, job)) return true;
  worker.has_failed = false;
  return false;
}

// The members halt, the one with `verdict` too, which is no loss: so the journal gets
// no rank.
void HaltToHandOver(Turn& turn, Job& job, v1::Verdict verdict) {
  absl::StrAppend(verdict.mutable_summary(),
                  "; it stays until others have what it alone holds");
  verdict.set_rank(-1);
  turn.Emit(v1::EVENT_SEVERITY_ERROR, "worker.hands_over", job,
            verdict.worker(), verdict.summary(), &verdict);
  if (job.state() == v1::JOB_STATE_HALTING) {
    NoteFurtherLoss(turn, job, std::move(verdict));
  } else {
    BeginHalt(turn, job, HaltIntent::kReform, std::move(verdict));
  }
}

// Counts that `gone` was lost before a first step; `summary` says how. Returns
// true if its host is unfit by that, since it was not the first time.
bool CountLoss(Turn& turn, Job& job, const Worker& gone, std::string summary) {
  EarlyLosses& losses = job.setbacks.early_losses[gone.host_key];
  const int64_t generation =
      gone.rehearsal.has_value() ? gone.rehearsal->number : job.generation;
  if (losses.generation != generation) ++losses.count;
  losses.generation = generation;
  const HostQuarantine* const known =
      turn.state.QuarantineOf(job, gone.host_key);
  if (losses.count < kMostEarlyLosses ||
      (known != nullptr && known->is_unfit)) {
    return false;
  }
  summary = absl::StrCat("its workers were lost ", losses.count,
                         " times before their first step, at last: ", summary);
  LeaveOutHost(turn, job, gone,
               {std::move(summary), static_cast<int>(ExitCode::kRetryElsewhere),
                /*is_unfit=*/true});
  return true;
}

// The job ends by what `member` failed of.
void FailJobFor(Turn& turn, Job& job, Member& member, v1::Verdict verdict) {
  verdict.set_decision(v1::VERDICT_DECISION_FAIL_JOB);
  // It has stopped by itself: the halt asks only the others.
  member.halted = HaltedAnswer{member.step, member.step};
  turn.Emit(v1::EVENT_SEVERITY_ERROR, "worker.failed", job, verdict.worker(),
            verdict.summary(), &verdict);
  if (IntentOf(job) == HaltIntent::kFail) {
    ResolveHalt(turn, job);  // The first failure is the job's.
    return;
  }
  FailJob(turn, job, std::move(verdict));
}

}  // namespace

ExitCode ExitCodeOf(const FailedReceived& failed) {
  return failed.exit_code <= 0 ? ExitCode::kInternal
                               : static_cast<ExitCode>(failed.exit_code);
}

void OnOwnFailure(Turn& turn, Job& job, Member& member, v1::Evidence evidence,
                  ExitCode exit_code, bool is_of_job, bool was_preparing) {
  const std::string name = member.identity.worker;
  const std::string_view what = evidence.kind() == v1::EVIDENCE_KIND_SELF_REPORT
                                    ? "failed"
                                    : "was evicted";
  Worker& worker = *turn.state.FindWorker(name);
  // Whoever has prepared the generation has not failed to.
  was_preparing = WasPreparing(job, member) ||
                  (was_preparing && !member.prepared.has_value());
  v1::Verdict verdict =
      VerdictOnMember(job, member, worker, what, evidence, turn.time);
  verdict.set_exit_code(static_cast<int>(exit_code));
  const bool is_failing = IntentOf(job) == HaltIntent::kFail;
  const std::optional<std::string> jobs_fault =
      is_failing || job.is_benchmark || is_of_job
          ? std::string()
          : NoteOwnFailure(turn, job, member, worker, verdict, was_preparing);
  if (!jobs_fault.has_value() && !was_preparing &&
      StaysToHandOver(turn.state, job, member, worker, exit_code)) {
    HaltToHandOver(turn, job, std::move(verdict));
    return;
  }
  if (!jobs_fault.has_value()) {
    Evict(turn, name, std::move(evidence), what, exit_code);
    return;
  }
  absl::StrAppend(verdict.mutable_summary(), *jobs_fault);
  FailJobFor(turn, job, member, std::move(verdict));
}

std::optional<std::string> NoteEarlyLoss(Turn& turn, Job& job,
                                         const Member& member,
                                         const Worker& gone,
                                         const v1::Verdict& verdict) {
  const v1::EvidenceKind kind = verdict.evidence(0).kind();
  if (!IsEarlyLoss(kind) || !WasStarting(job, member)) return std::nullopt;
  // One that hangs, while all the others are ready, has cost them time enough;
  // unless it never heard of the generation, so its host is not unfit.
  const bool hangs = kind == v1::EVIDENCE_KIND_NO_PROGRESS &&
                     WasPreparing(job, member) && HaveOthersPrepared(job);
  if (hangs && turn.state.QuarantineOf(job, gone.host_key) == nullptr) {
    LeaveOutHost(turn, job, gone, {verdict.summary()});
  }
  if (!CountLoss(turn, job, gone, verdict.summary())) {
    return std::nullopt;
  }
  if (job.has_made_step) return std::nullopt;
  return Everywhere(turn.state, job, member, verdict.exit_code());
}

void NoteLossInRehearsal(Turn& turn, Job& job, const Worker& gone,
                         const v1::Evidence& evidence, std::string what) {
  if (!IsEarlyLoss(evidence.kind())) return;
  CountLoss(turn, job, gone, std::move(what));
}

void NoteProven(Job& job) {
  for (const Member& member : job.members) {
    if (!member.is_lost && member.identity.role == v1::ROLE_WORKER &&
        job.proven_hosts.size() < kMostProvenHosts) {
      job.proven_hosts.insert(member.identity.host_key);
    }
  }
}

void NoteStepMade(Job& job) {
  job.has_made_step = true;
  if (std::exchange(job.proven_generation, job.generation) != job.generation)
    NoteProven(job);
  if (job.setbacks.early_losses.empty()) return;
  for (const Member& member : job.members) {
    if (!member.is_lost)
      job.setbacks.early_losses.erase(member.identity.host_key);
  }
}

std::optional<JobsFault> TriedEverywhere(const State& state, const Job& job) {
  const std::set<std::string> hosts = FailedHosts(state, job, 0);
  if (hosts.empty() || GoesWellElsewhere(state, job, v1::ROLE_WORKER, "") ||
      HasUntriedHost(state, job, v1::ROLE_WORKER, /*exit_code=*/0)) {
    return std::nullopt;
  }
  const auto last = std::find_if(
      state.quarantines.rbegin(), state.quarantines.rend(),
      [&](const HostQuarantine& quarantine) {
        return quarantine.job_id == job.id && quarantine.exit_code != 0;
      });
  return JobsFault{last->exit_code,
                   absl::StrCat(last->reason, SameText(hosts))};
}

}  // namespace ringmaster::coordinator
