#include "server/coordinator/core/life/training.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"
#include "common/status/exit_code.h"
#include "server/coordinator/core/account/incident.h"
#include "server/coordinator/core/account/verdict.h"
#include "server/coordinator/core/life/absence.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/halt.h"
#include "server/coordinator/core/life/hand_over.h"
#include "server/coordinator/core/life/job_end.h"
#include "server/coordinator/core/life/membership.h"
#include "server/coordinator/core/life/message_bounds.h"
#include "server/coordinator/core/life/own_failure.h"
#include "server/coordinator/core/life/probing.h"
#include "server/coordinator/core/life/progress.h"
#include "server/coordinator/core/life/reform.h"
#include "server/coordinator/core/life/rehearsal.h"

namespace ringmaster::coordinator {
namespace {

// Keeps the figures of the lowest rank that reported the highest step; there
// are no figures of step 0.
void TakeFigures(Job& job, const Member& member, int64_t step,
                 const v1::TrainingFigures& figures) {
  const int rank = member.identity.rank;
  if (member.identity.role != v1::ROLE_WORKER) return;
  // Each member reports checkpoints on its own.
  const int64_t checkpoint_step =
      std::max(job.figures.checkpoint_step(), figures.checkpoint_step());
  job.figures.set_checkpoint_step(checkpoint_step);
  if (figures.step() <= 0 || step < job.figures.step() ||
      (step == job.figures.step() && rank > job.figures_rank)) {
    return;
  }
  job.figures = figures;
  job.figures.set_checkpoint_step(checkpoint_step);
  job.figures.set_step(step);
  job.figures.set_total_steps(job.total_steps);
  job.figures_rank = rank;
}

// Rank 0 reports a benchmark's measurements in this generation: after a fault
// it starts again.
void TakeBench(Job& job, int rank,
               const std::optional<v1::BenchFigures>& bench) {
  if (rank == 0 && bench.has_value()) job.bench = bench;
}

void TakeRankFigures(Member& member,
                     const std::shared_ptr<const v1::RankFigures>& figures) {
  if (figures != nullptr) member.rank_figures = figures;
}

bool IsTraining(const Job& job) {
  return job.state() == v1::JOB_STATE_RUNNING ||
         job.state() == v1::JOB_STATE_STOPPING;
}

// A job that was to go on from a checkpoint has made an earlier step: nobody found it.
void CheckPromise(Turn& turn, Job& job) {
  if (job.best_step == job.promised_step) return;  // it is loaded
  const int64_t promised = std::exchange(job.promised_step, -1);
  if (job.best_step > promised) return;
  turn.Emit(v1::EVENT_SEVERITY_WARNING, "job.rolled_back", job, "",
            absl::StrCat("its members did not find the checkpoint of step ",
                         promised, ", and have made step ", job.best_step,
                         ": the directory has to be on storage that all "
                         "workers see"),
            /*verdict=*/nullptr, promised);
}

void TakeStep(Turn& turn, Job& job, Worker& worker, Member& member,
              int64_t step) {
  NoteAppliedStep(job, worker, member, step);
  if (member.identity.role != v1::ROLE_WORKER) return;
  // If each member has its own clock, one's step proves nothing about the
  // others.
  if (step >= job.resume_step && job.sharding.is_lockstep) {
    job.life.OnReport(job.generation, step, turn.now);
  }
  if (step > job.resume_step && !job.absence.members.empty())
    DropOvertaken(turn, job);
  if (step <= job.best_step) return;
  job.best_step = step;
  // One that a checkpoint has brought back is none that they made together.
  const bool is_loaded = step == job.promised_step;
  if (step > job.resume_step && !is_loaded) NoteStepMade(job);
  if (IsTraining(job) && !is_loaded) {
    job.links.OnStep();
    job.progress.NoteRound(v1::PHASE_STEP);
  }
  NoteStep(turn, job);
  CheckPromise(turn, job);
}

std::string DoneText(const Job& job, int64_t step) {
  if (job.runs_commands) return "the commands of all ranks have ended with 0";
  if (step < job.total_steps) {
    return absl::StrCat("ended early after step ", step, " of ",
                        job.total_steps,
                        ": its evaluations did not get better");
  }
  return absl::StrCat("all ", job.total_steps, " steps are done");
}

void Succeed(Turn& turn, Job& job, const FinishedAnswer& answer) {
  DecideEnd(turn, job,
            {v1::JOB_STATE_SUCCEEDED, static_cast<int>(ExitCode::kDone),
             DoneText(job, answer.step), answer.parameters_hash});
}

// Returns true if `step`, the last one, is in no checkpoint, and a member that may
// have been writing it is gone. (Members that could not write say so themselves.)
bool LacksCheckpoint(const Job& job, int64_t step) {
  return job.keeps_checkpoints && job.figures.checkpoint_step() < step &&
         std::any_of(job.members.begin(), job.members.end(),
                     [](const Member& member) { return member.is_lost; });
}

// The others finish without it, and write the last checkpoint once more if it was the
// one that wrote it. Its loss is looked at like any other.
void LoseOddlyFinished(Turn& turn, Job& job, const OddMember& odd) {
  const Worker& worker = *turn.state.FindWorker(odd.worker);
  if (MemberOf(turn.state, worker)->written_step >=
      job.figures.checkpoint_step()) {
    job.figures.set_checkpoint_step(0);
  }
  CloseForViolation(turn, worker, odd.difference);
}

}  // namespace

void OnBeat(Turn& turn, Worker& worker, const BeatReceived& beat) {
  worker.certificate_end = beat.certificate_end;
  Member* const member = MemberIn(turn.state, worker, beat.generation);
  if (member == nullptr) return;
  Job& job = *turn.state.JobOf(worker);
  NoteSigns(turn, job, worker, *member, beat);
  worker.phase = beat.phase;
  worker.collective_sequence = beat.collective_sequence;
  worker.waiting_for_rank = beat.waiting_for_rank;
  if (beat.waiting_for_rank < 0) worker.last_at_work = turn.now;
  worker.disk_bytes = beat.disk_bytes;
  if (beat.waiting_for_rank >= 0) ProbeEarly(turn, job, *member);
  member->awaited_rank = beat.figures.awaited_rank();
  member->awaited_ratio = beat.figures.awaited_ratio();
  const bool is_prepared =
      beat.phase != v1::PHASE_PREPARE || job.counted_since < job.generation;
  // CheckMessage has checked those of a member that has prepared.
  if (is_prepared && CountsSteps(job, *member) &&
      (member->prepared.has_value() || HasPossibleSteps(job, beat))) {
    TakeStep(turn, job, worker, *member, beat.step);
    TakeFigures(job, *member, beat.step, beat.figures);
  }
  // Its command runs again, which is all that a recovery is for.
  if (beat.phase == v1::PHASE_COMMAND) NoteStep(turn, job);
  TakeBench(job, member->identity.rank, beat.bench);
  TakeRankFigures(*member, beat.rank_figures);
  turn.Touch(job);
}

void OnSuspicion(Turn& turn, Worker& worker,
                 const SuspicionReceived& suspicion) {
  Member* const member = MemberIn(turn.state, worker, suspicion.generation);
  if (member == nullptr) return;
  Job& job = *turn.state.JobOf(worker);
  const int rank = member->identity.rank;
  const int peer = suspicion.peer_rank;
  if (!IsTraining(job)) return;  // A halt is the answer already.
  const bool is_repeated = std::any_of(
      job.suspicions.reports.begin(), job.suspicions.reports.end(),
      [&](const auto& report) {
        return report.observer_rank == rank && report.peer_rank == peer;
      });
  if (is_repeated) return;
  // It was at this step, so it has applied the previous one; and if no beat has
  // told of that, it went on until it found the link broken.
  if (suspicion.step > 0) {
    const int64_t known = job.best_step;
    TakeStep(turn, job, worker, *member, suspicion.step - 1);
    if (job.best_step > known) NoteProgress(turn, job);
  }
  const std::string detail = LinkText(suspicion.failure, suspicion.detail);
  job.suspicions.reports.push_back(
      {worker.name, rank, peer, detail,
       suspicion.is_unreached.value_or(worker.phase == v1::PHASE_CONNECT),
       suspicion.failure, turn.now});
  turn.Emit(v1::EVENT_SEVERITY_WARNING, "worker.suspected", job,
            job.members[peer].identity.worker,
            absl::StrCat(Describe(member->identity), " reports ",
                         Describe(job.members[peer].identity), ": ", detail));
  if (suspicion.holds_other_state) {
    BeginHalt(turn, job, IntentOf(job),
              VerdictOnStates(job, job.suspicions.reports.back(), turn.time));
    return;
  }
  const std::string accused = job.members[peer].identity.worker;
  const Worker* const cut_off = turn.state.FindWorker(accused);
  if (cut_off != nullptr && cut_off->is_cut_off) {
    LoseCutOff(turn, accused, "a peer's link with it failed");
    return;
  }
  if (job.members[peer].is_lost && job.state() == v1::JOB_STATE_RUNNING) {
    // The others had finished, but this one still needs the peer.
    BeginHalt(turn, job, HaltIntent::kReform, *job.verdict);
    return;
  }
  // A peer that has not attached again yet may turn out to be dead first.
  MonotonicTime due = turn.now + turn.config.suspicion_grace;
  if (job.reattach_deadline != MonotonicTime::InfiniteFuture()) {
    due = std::max(due, job.reattach_deadline);
  }
  job.suspicions.deadline =
      BeginProbing(turn, job, job.suspicions.reports.back())
          ? due
          : std::min(job.suspicions.deadline, due);
}

void OnFinished(Turn& turn, Worker& worker, const FinishedReceived& finished) {
  Member* const member = MemberIn(turn.state, worker, finished.generation);
  if (member == nullptr) return;
  Job& job = *turn.state.JobOf(worker);
  // Also if another rank has failed meanwhile: the measurements are kept.
  TakeBench(job, member->identity.rank, finished.bench);
  TakeRankFigures(*member, finished.rank_figures);
  if (!IsTraining(job)) return;  // Its answer to the halt counts.
  // A repeated message, after its stream broke, is no progress.
  if (!member->finished.has_value()) NoteProgress(turn, job);
  member->finished = FinishedAnswer{finished.step, finished.parameters_hash,
                                    finished.is_stopped};
  worker.waiting_for_rank = -1;
  TakeStep(turn, job, worker, *member, finished.step);
  TakeFigures(job, *member, finished.step, finished.figures);
  turn.Touch(job);
  CheckFinished(turn, job);
}

void CheckFinished(Turn& turn, Job& job) {
  const Agreement agreement = FinishedAgreement(job);
  if (agreement == Agreement::kIncomplete) return;
  if (agreement == Agreement::kDifferent) {
    if (const std::optional<OddMember> odd = OddlyFinished(job)) {
      LoseOddlyFinished(turn, job, *odd);
      return;
    }
    job.verdict = VerdictOnFinished(job, turn.time);
    turn.Persist(VerdictReachedRecord{job.id, *job.verdict});
    DecideEnd(turn, job,
              {v1::JOB_STATE_FAILED, job.verdict->exit_code(),
               job.verdict->summary()});
    return;
  }
  const auto alive =
      std::find_if(job.members.begin(), job.members.end(),
                   [](const Member& member) { return !member.is_lost; });
  const FinishedAnswer answer = *alive->finished;
  if (!answer.is_stopped && LacksCheckpoint(job, answer.step)) {
    // Those who are left hold the last step: they close the job in a generation
    // that makes no step and writes the checkpoint.
    BeginHalt(turn, job, HaltIntent::kReform, *job.verdict);
    return;
  }
  if (!answer.is_stopped) {
    Succeed(turn, job, answer);
    return;
  }
  if (!job.cancel_reason.has_value()) {
    // Nobody asked the job to stop: its members leave.
    job.has_closed = true;
    BeginHalt(turn, job, HaltIntent::kReform,
              VerdictOnLeave(turn, job, answer.step));
    return;
  }
  DecideEnd(
      turn, job,
      {v1::JOB_STATE_CANCELLED, static_cast<int>(ExitCode::kStopped),
       absl::StrCat(job.runs_commands
                        ? std::string("stopped")
                        : absl::StrCat("stopped after step ", answer.step),
                    ": ", *job.cancel_reason, UnsavedText(job, answer.step))});
}

void OnFailed(Turn& turn, Worker& worker, const FailedReceived& failed) {
  if (IsRehearsal(worker, failed.generation)) {
    OnRehearsalFailed(turn, *turn.state.FindJob(worker.rehearsal->job_id),
                      worker, failed);
    return;
  }
  Member* const member = MemberOf(turn.state, worker);
  if (member == nullptr || failed.generation != worker.generation ||
      turn.state.JobOf(worker)->ending.has_value()) {
    return;
  }
  Job& job = *turn.state.JobOf(worker);
  if (IsForming(job) && IsNew(job)) return;  // It has heard of no generation.
  if (failed.generation < member->since) return;  // It rehearsed.
  if (member->identity.role == v1::ROLE_WORKER && CountsSteps(job, *member) &&
      failed.step <= LastStep(job)) {
    member->step = std::max(member->step, failed.step);
  }
  OnOwnFailure(
      turn, job, *member,
      EvidenceOf(v1::EVIDENCE_KIND_SELF_REPORT, worker.name, failed.message),
      ExitCodeOf(failed), failed.is_of_job, failed.was_preparing);
}

absl::Duration StopPatience(const Job& job, const Config& config) {
  // Two, since a step may begin just before the members hear of the stop.
  return std::max(config.stop_budget,
                  std::min(2 * FromProto(job.figures.step_duration()),
                           config.progress_cap));
}

void StopMembers(Turn& turn, Job& job) {
  job.stage = stage::Stopping{turn.now + StopPatience(job, turn.config)};
  for (const Member& member : job.members) {
    // Parameter servers end with the workers.
    if (member.identity.role != v1::ROLE_WORKER) continue;
    const Worker* const worker = turn.state.FindWorker(member.identity.worker);
    if (worker == nullptr || worker->session == 0 ||
        MemberOf(turn.state, *worker) != &member) {
      continue;
    }
    turn.Do(SendStop{worker->session, job.generation, *job.cancel_reason});
  }
}

void OnStopDeadline(Turn& turn, Job& job) {
  ClearDeadlines(job.stage);
  std::string late;
  for (const Member& member : job.members) {
    if (member.is_lost || member.finished.has_value()) continue;
    absl::StrAppend(&late, late.empty() ? "" : ", ", member.identity.worker);
  }
  BeginHalt(
      turn, job, HaltIntent::kCancel,
      VerdictOnNobody(
          job,
          absl::StrCat("not stopped, without progress for ",
                       absl::FormatDuration(StopPatience(job, turn.config)),
                       ": ", late),
          turn.time));
}

}  // namespace ringmaster::coordinator
