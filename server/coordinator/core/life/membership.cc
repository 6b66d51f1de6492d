#include "server/coordinator/core/life/membership.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/reason.h"
#include "server/coordinator/core/account/incident.h"
#include "server/coordinator/core/account/verdict.h"
#include "server/coordinator/core/life/absence.h"
#include "server/coordinator/core/life/attach.h"
#include "server/coordinator/core/life/broken_links.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/halt.h"
#include "server/coordinator/core/life/message_bounds.h"
#include "server/coordinator/core/life/other_coordinator.h"
#include "server/coordinator/core/life/own_failure.h"
#include "server/coordinator/core/life/rebuild.h"
#include "server/coordinator/core/life/reform.h"
#include "server/coordinator/core/life/silence.h"

namespace ringmaster::coordinator {
namespace {

v1::Evidence Observed(v1::EvidenceKind kind, std::string_view detail) {
  return EvidenceOf(kind, kCoordinatorObserver, detail);
}

// Takes the worker of that name out of the pool, and out of its job if it is a
// member.
void Lose(Turn& turn, const std::string& name, std::string_view what,
          v1::Evidence evidence,
          ExitCode exit_code = ExitCode::kRetryElsewhere) {
  const auto it = turn.state.workers.find(name);
  const Worker gone = std::move(it->second);
  turn.state.sessions.erase(gone.session);
  turn.state.workers.erase(it);
  turn.Touch();
  if (MemberOf(turn.state, gone) != nullptr) {
    OnMemberGone(turn, gone, what, std::move(evidence), exit_code);
    return;
  }
  if (!gone.keeps_steps_of.empty()) NoteKeeperGone(turn, gone, evidence.kind());
  const bool is_polite = evidence.kind() == v1::EVIDENCE_KIND_LEFT;
  const std::string text =
      absl::StrCat(gone.state == v1::WORKER_STATE_IDLE ? "idle " : "",
                   Sv(NameOf(gone.role)), " ", gone.name, " on host ",
                   gone.host, " ", Sv(what), ": ", evidence.detail());
  turn.Emit(is_polite ? v1::EVENT_SEVERITY_INFO : v1::EVENT_SEVERITY_WARNING,
            is_polite ? "worker.left" : "worker.lost", gone.name, text);
  if (gone.rehearsal.has_value() && !gone.rehearsal->is_ready) {
    NoteLossInRehearsal(turn, *turn.state.FindJob(gone.rehearsal->job_id), gone,
                        evidence, text);
  }
  turn.ScheduleSoon();
}

void Close(Turn& turn, SessionId session, absl::Status status,
           std::string_view reason_name) {
  turn.Do(CloseSession{session, WithReason(std::move(status), reason_name)});
}

bool IsLive(const Worker& worker, const Turn& turn) {
  return worker.session != 0 &&
         worker.last_heard + turn.config.lease > turn.now;
}

// Returns true if the worker may have been a member of the newest generations
// of an active job, and its loss is not durable yet. It must not be told before
// that: it would drop the steps that it holds, and a coordinator that restarted
// then would still rely on them.
bool IsLossPending(const Turn& turn, const HelloReceived& hello) {
  if (hello.generation == 0) return false;
  const Worker* const holder = turn.state.FindWorker(hello.name);
  if (holder != nullptr && holder->incarnation == hello.incarnation) {
    return false;
  }
  const auto is_of_job = [&](const PendingRecord& pending) {
    const Job* const job = turn.state.FindJob(JobIdOf(pending.record));
    return job != nullptr && turn.state.active_jobs.contains(job->number) &&
           hello.generation >= job->first_generation &&
           hello.generation <= job->generation;
  };
  return std::any_of(turn.outbox.deferred.begin(), turn.outbox.deferred.end(),
                     is_of_job) ||
         std::any_of(
             turn.outbox.in_flight.begin(), turn.outbox.in_flight.end(),
             [&](const auto& entry) { return is_of_job(entry.second); });
}

absl::Status NameInUse(const Worker& holder) {
  return absl::AlreadyExistsError(absl::StrCat("worker name ", holder.name,
                                               " is in use by pid ", holder.pid,
                                               " on host ", holder.host));
}

// Closes the session and returns true if `bounds` says that a bound is exceeded.
// Whoever has the hello's name is not touched: anybody can say it.
bool RefuseFalse(Turn& turn, const HelloReceived& hello,
                 const absl::Status& bounds) {
  if (bounds.ok()) return false;
  Close(turn, hello.session,
        absl::InvalidArgumentError(
            absl::StrCat("worker ", hello.name, " ", bounds.message())),
        reason::kSessionProtocolViolation);
  return true;
}

// Returns true if the hello names a process that the coordinator knows, and gives
// another resume key than that did: name and incarnation are no secrets. A process
// gives the same one always, or none; a journal of an earlier release has none.
bool IsImpostor(const State& state, const HelloReceived& hello) {
  const Worker* const holder = state.FindWorker(hello.name);
  if (holder != nullptr && holder->incarnation == hello.incarnation) {
    const bool may_be_missing = holder->state == v1::WORKER_STATE_DETACHED &&
                                holder->resume_key_hash.empty();
    return !may_be_missing && holder->resume_key_hash != hello.resume_key_hash;
  }
  const MemberIdentity* const absent =
      FindAbsent(state, hello.name, hello.incarnation);
  return absent != nullptr && !absent->resume_key_hash.empty() &&
         absent->resume_key_hash != hello.resume_key_hash;
}

// At most one event a second: a process that tries again and again must not push out
// what else happened.
void NoteImpostor(Turn& turn, const HelloReceived& hello) {
  if (turn.now < turn.state.next_impostor_event) return;
  turn.state.next_impostor_event = turn.now + absl::Seconds(1);
  turn.Emit(v1::EVENT_SEVERITY_WARNING, "worker.impostor", hello.name,
            absl::StrCat("a process on host ", hello.host, ", pid ", hello.pid,
                         ", said that it is worker ", hello.name,
                         " without that one's resume key, and was refused"));
}

// A value of the flag --data_encryption.
std::string_view EncryptionText(bool is_required) {
  return is_required ? "required" : "off";
}

// Closes the session and returns true if the hello cannot be accepted.
bool RefuseHello(Turn& turn, const HelloReceived& hello) {
  if (RefuseFalse(turn, hello, CheckNumber(turn.state, hello))) return true;
  const Config& config = turn.config;
  if (hello.protocol_max < config.protocol_min ||
      hello.protocol_min > config.protocol_max) {
    Close(
        turn, hello.session,
        absl::FailedPreconditionError(absl::StrCat(
            "worker ", hello.name, " (version ", hello.version,
            ") speaks protocol versions ", hello.protocol_min, " to ",
            hello.protocol_max, ", this coordinator ", config.protocol_min,
            " to ", config.protocol_max, "; use binaries of the same release")),
        reason::kProtocolMismatch);
    return true;
  }
  if (hello.requires_encryption != config.requires_encryption) {
    Close(turn, hello.session,
          absl::InvalidArgumentError(
              absl::StrCat("worker ", hello.name, " (version ", hello.version,
                           ") runs with --data_encryption=",
                           Sv(EncryptionText(hello.requires_encryption)),
                           ", this coordinator with --data_encryption=",
                           Sv(EncryptionText(config.requires_encryption)),
                           "; start both with the same")),
          reason::kEncryptionMismatch);
    return true;
  }
  if (IsImpostor(turn.state, hello)) {
    NoteImpostor(turn, hello);
    Close(turn, hello.session,
          absl::UnauthenticatedError(absl::StrCat(
              "worker ", hello.name,
              " is another process: the resume key is not that one's")),
          reason::kIdentityNotProven);
    return true;
  }
  const Worker* const holder = turn.state.FindWorker(hello.name);
  // A cut has held it up: its stream is given up, and a later one may be open.
  if (holder != nullptr && holder->incarnation == hello.incarnation &&
      hello.attempt != 0 && hello.attempt < holder->attempt) {
    Close(turn, hello.session,
          absl::AbortedError("the worker opened a newer stream"),
          reason::kSuperseded);
    return true;
  }
  if (IsLossPending(turn, hello)) {
    Close(turn, hello.session,
          absl::UnavailableError(absl::StrCat(
              "the loss of worker ", hello.name, " from generation ",
              hello.generation, " is still being recorded; try again")),
          reason::kJournalUnavailable);
    return true;
  }
  if (holder == nullptr || holder->incarnation == hello.incarnation ||
      !IsLive(*holder, turn)) {
    return false;
  }
  Close(turn, hello.session, NameInUse(*holder), reason::kWorkerNameInUse);
  return true;
}

// Another process life has taken the name.
void Supersede(Turn& turn, const std::string& name) {
  const Worker& old = *turn.state.FindWorker(name);
  if (old.session != 0) {
    Close(turn, old.session,
          absl::AbortedError(absl::StrCat("worker name ", name,
                                          " was taken by a new process")),
          reason::kSuperseded);
  }
  Lose(turn, name, "was lost",
       Observed(v1::EVIDENCE_KIND_SUPERSEDED,
                "a new process with its name said hello"));
}

void LoseForViolation(Turn& turn, const std::string& worker,
                      std::string_view what) {
  const std::string name = worker;
  Lose(turn, name, "was evicted",
       Observed(v1::EVIDENCE_KIND_FALSE_REPORT,
                absl::StrCat("it broke the protocol: ", Sv(what))));
  // Its process ends.
  ForgetEnded(turn, name, /*incarnation=*/0);
}

// Returns true if it has not attached again, and its peers' steps do not prove that
// it trains.
bool IsAwaited(const State& state, const Member& member) {
  if (member.is_lost) return false;
  const Worker* const worker = state.FindWorker(member.identity.worker);
  return worker->session == 0 && !worker->is_cut_off;
}

// Its time may be too short for what a last checkpoint takes.
void WarnOfShortPatience(Turn& turn, const Worker& worker,
                         absl::Duration patience) {
  if (MemberOf(turn.state, worker) == nullptr) return;
  const Job& job = *turn.state.JobOf(worker);
  if (!job.keeps_checkpoints || patience <= absl::ZeroDuration() ||
      job.checkpoint_duration <= patience) {
    return;
  }
  const std::string text = absl::StrCat(
      "worker ", worker.name, " stays for ", absl::FormatDuration(patience),
      " at most, but the last checkpoint took ",
      absl::FormatDuration(
          absl::Ceil(job.checkpoint_duration, absl::Milliseconds(1))),
      " to write: if nobody takes over, steps may be lost; give workers a "
      "longer --drain_timeout");
  turn.Emit(v1::EVENT_SEVERITY_WARNING, "worker.drain_too_short", job,
            worker.name, text);
  if (worker.protocol >= kLeaveProtocol) {
    turn.Do(SendLeaveAdvice{worker.session, text});
  }
}

}  // namespace

void OnHello(Turn& turn, const HelloReceived& hello) {
  if (const Worker* const known = turn.state.FindSession(hello.session)) {
    CloseForViolation(turn, *known, "said hello twice on one stream");
    return;
  }
  if (RefuseHello(turn, hello)) return;
  const bool is_sent_away = SendAway(turn, hello);
  if (!is_sent_away &&
      RefuseFalse(turn, hello, CheckSteps(turn.state, hello))) {
    return;
  }
  // A worker of a coordinator whose journal is gone: fence its generation too.
  turn.state.last_generation =
      std::max(turn.state.last_generation, hello.generation);
  if (is_sent_away) return;
  if (!hello.held_job_fault.empty()) {
    turn.Emit(
        v1::EVENT_SEVERITY_WARNING, "worker.held_job_ignored", hello.name,
        absl::StrCat("worker ", hello.name,
                     " tells of a job that cannot be: ", hello.held_job_fault));
  }
  if (!hello.costs_fault.empty()) {
    turn.Emit(v1::EVENT_SEVERITY_WARNING, "worker.costs_ignored", hello.name,
              absl::StrCat("worker ", hello.name,
                           " measured what cannot be: ", hello.costs_fault));
  }
  const Worker* const holder = turn.state.FindWorker(hello.name);
  if (holder != nullptr && holder->incarnation == hello.incarnation) {
    if (!ReportsAnotherJob(turn.state, *holder, hello)) {
      AttachAgain(turn, hello);
      return;
    }
    Lose(turn, hello.name, "left",
         EvidenceOf(v1::EVIDENCE_KIND_LEFT, hello.name,
                    absl::StrCat("it is in generation ", hello.generation,
                                 " of job ", hello.held_job->job_id)));
    Join(turn, hello);
    return;
  }
  if (holder != nullptr) Supersede(turn, hello.name);
  ForgetEnded(turn, hello.name, hello.incarnation);
  if (hello.predecessor.has_value()) {
    NoteProcessEnd(turn, hello.name, *hello.predecessor);
  }
  Join(turn, hello);
}

void OnStreamClosed(Turn& turn, Worker& worker, const StreamClosed& closed) {
  if (closed.is_violation) {
    LoseForViolation(turn, worker.name, closed.detail);
    return;
  }
  if (DetachInSilence(turn, worker) || DetachCutOff(turn, worker)) return;
  Lose(turn, std::string(worker.name), "was lost",
       Observed(v1::EVIDENCE_KIND_STREAM_BROKEN,
                absl::StrCat("its stream broke: ", closed.detail)));
}

void OnLeaving(Turn& turn, Worker& worker, const LeavingReceived& leaving) {
  if (!leaving.is_done) {
    // One that attaches again says so again, and how long it stays.
    if (!std::exchange(worker.patience, leaving.patience).has_value()) {
      WarnOfShortPatience(turn, worker, leaving.patience);
    }
    if (leaving.patience > absl::ZeroDuration()) {
      worker.leaves_by = turn.now + leaving.patience;
    }
    if (worker.state == v1::WORKER_STATE_DRAINING) return;
    worker.state = v1::WORKER_STATE_DRAINING;
    turn.Touch();
    turn.Emit(
        v1::EVENT_SEVERITY_INFO, "worker.draining", worker.name,
        absl::StrCat("worker ", worker.name,
                     " leaves at the next step boundary: ", leaving.reason));
    turn.ScheduleSoon();
    return;
  }
  std::string why = leaving.reason;
  if (Member* const member = MemberOf(turn.state, worker)) {
    Job& job = *turn.state.JobOf(worker);
    if (CountsSteps(job, *member) && leaving.step <= LastStep(job)) {
      NoteAppliedStep(job, worker, *member, leaving.step);
      job.best_step = std::max(job.best_step, member->step);
    }
    if (const std::string loss = LossByLeaving(job, *member); !loss.empty()) {
      absl::StrAppend(&why, "; ", loss);
      turn.Emit(v1::EVENT_SEVERITY_WARNING, "job.steps_lost", job, worker.name,
                absl::StrCat(Sv(NameOf(worker.role)), " ", worker.name,
                             " leaves: ", loss));
    }
  }
  turn.Do(CloseSession{worker.session, absl::OkStatus()});
  Lose(turn, std::string(worker.name), "left",
       EvidenceOf(v1::EVIDENCE_KIND_LEFT, worker.name, why));
}

void LoseCutOff(Turn& turn, const std::string& name, std::string_view why) {
  Lose(turn, name, "was lost",
       Observed(v1::EVIDENCE_KIND_STREAM_BROKEN,
                absl::StrCat("its stream broke, and ", Sv(why))));
}

void LoseEnded(Turn& turn, Job& job) {
  if (job.reattach_deadline == MonotonicTime::InfiniteFuture() ||
      job.is_recovered || job.suspicions.reports.empty()) {
    return;
  }
  const Member* awaited = nullptr;
  for (const Member& member : job.members) {
    if (!IsAwaited(turn.state, member)) continue;
    if (awaited != nullptr) return;
    awaited = &member;
  }
  if (awaited == nullptr || !TellOfAnEnd(job, awaited->identity)) return;
  const MemberIdentity& identity = awaited->identity;
  const auto report =
      std::find_if(job.suspicions.reports.begin(), job.suspicions.reports.end(),
                   [&](const SuspicionReport& suspicion) {
                     return suspicion.peer_rank == identity.rank;
                   });
  job.reattach_deadline = MonotonicTime::InfiniteFuture();
  LoseCutOff(
      turn, std::string(identity.worker),
      absl::StrCat("worker ", report->observer, " reports: ", report->detail));
}

void ExpireLeases(Turn& turn) {
  MonotonicTime next = MonotonicTime::InfiniteFuture();
  std::vector<std::string> expired;
  for (const auto& [name, worker] : turn.state.workers) {
    if (worker.session == 0 && !worker.is_cut_off) continue;
    const MonotonicTime deadline =
        LastSign(turn.state, worker) + turn.config.lease;
    if (deadline <= turn.now) {
      expired.push_back(name);
    } else {
      next = std::min(next, deadline);
    }
  }
  turn.state.lease_check = next;
  if (expired.empty()) {
    turn.state.common_silence.reset();
    return;
  }
  if (IsCommonSilence(turn)) {
    turn.state.lease_check = turn.now + turn.config.beat_interval;
    return;
  }
  const std::string detail = absl::StrCat(
      "nothing heard of it for ", absl::FormatDuration(turn.config.lease));
  for (const std::string& name : expired) {
    const SessionId session = turn.state.FindWorker(name)->session;
    if (session == 0) {
      LoseCutOff(turn, name,
                 absl::StrCat("no step has shown for ",
                              absl::FormatDuration(turn.config.lease),
                              " that it lives"));
      continue;
    }
    Close(turn, session, absl::AbortedError(detail), reason::kLeaseExpired);
    Lose(turn, name, "was lost",
         Observed(v1::EVIDENCE_KIND_LEASE_EXPIRED, detail));
  }
}

void OnReattachDeadline(Turn& turn, Job& job) {
  job.reattach_deadline = MonotonicTime::InfiniteFuture();
  job.last_progress = turn.now;
  std::vector<std::string> missing;
  for (const Member& member : job.members) {
    if (IsAwaited(turn.state, member))
      missing.push_back(member.identity.worker);
  }
  const std::string detail =
      absl::StrCat("did not attach again within ",
                   absl::FormatDuration(turn.config.reattach_budget),
                   job.is_recovered ? " of the coordinator's restart" : "");
  for (const std::string& name : missing) {
    Lose(turn, name, "was lost",
         Observed(v1::EVIDENCE_KIND_LEASE_EXPIRED, detail));
  }
}

void Evict(Turn& turn, const std::string& name, v1::Evidence evidence,
           std::string_view what, ExitCode exit_code) {
  const Worker& worker = *turn.state.FindWorker(name);
  if (worker.session != 0) {
    Close(turn, worker.session,
          absl::AbortedError(
              absl::StrCat("evicted from generation ", worker.generation, ": ",
                           evidence.detail(), "; join again as a newcomer")),
          reason::kStaleGeneration);
  }
  Lose(turn, name, what, std::move(evidence), exit_code);
}

void CloseForViolation(Turn& turn, const Worker& worker,
                       std::string_view what) {
  if (worker.session != 0) {
    Close(turn, worker.session,
          absl::InvalidArgumentError(
              absl::StrCat("worker ", worker.name, " ", Sv(what))),
          reason::kSessionProtocolViolation);
  }
  LoseForViolation(turn, worker.name, what);
}

}  // namespace ringmaster::coordinator
