#include "server/coordinator/core/testing/action_text.h"

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/protocol/enum_name.h"
#include "common/status/reason.h"
#include "server/coordinator/core/placement/quotas.h"
#include "server/coordinator/core/state/formed.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {
namespace {

std::string StatusText(const absl::Status& status) {
  if (status.ok()) return "OK";
  return absl::StrCat(absl::StatusCodeToString(status.code()), "/",
                      ReasonOf(status), ": ", status.message());
}

// " by 00:01:05": of a drain, by the scenario's wall clock.
std::string DueText(absl::Time due) {
  return due == absl::InfiniteFuture()
             ? ""
             : absl::FormatTime(" by %H:%M:%S", due, absl::UTCTimeZone());
}

std::string RecordText(const JournalRecord& record) {
  std::string text = absl::StrCat(Sv(TypeOf(record)), " ", JobIdOf(record));
  if (const auto* const formed = std::get_if<GenerationFormedRecord>(&record)) {
    absl::StrAppend(&text, " gen=", formed->generation,
                    " after=", formed->resume_step,
                    formed->is_rollback ? " rollback" : "", " members=");
    for (const MemberIdentity& member : formed->members) {
      absl::StrAppend(&text, member.rank == 0 ? "" : ",", member.worker);
    }
  } else if (const auto* const host =
                 std::get_if<HostQuarantinedRecord>(&record)) {
    absl::StrAppend(&text, ": host ", host->host,
                    host->is_of_job ? " by the job" : "",
                    host->is_unfit ? ", unfit" : "");
  } else if (const auto* const cordoned =
                 std::get_if<CordonedRecord>(&record)) {
    absl::StrAppend(&text,
                    cordoned->is_lifted ? "lifted from "
                    : cordoned->drains  ? "draining "
                                        : "of ",
                    cordoned->target, DueText(cordoned->due_time),
                    cordoned->reason.empty() ? "" : ": ", cordoned->reason);
  } else if (const auto* const queues =
                 std::get_if<QueuesChangedRecord>(&record)) {
    for (const v1::QueueSpec& queue : queues->file.queues()) {
      absl::StrAppend(&text, queue.name(), "=", queue.workers(), " ");
    }
    absl::StrAppend(&text, queues->caller.has_value() ? "" : "(only use)");
  } else if (const auto* const changed =
                 std::get_if<JobChangedRecord>(&record)) {
    if (changed->priority.has_value()) {
      absl::StrAppend(&text, " priority ", *changed->priority);
    }
    if (changed->is_suspended.has_value()) {
      absl::StrAppend(&text,
                      *changed->is_suspended ? " suspended" : " resumed");
    }
    if (changed->max_workers.has_value()) {
      absl::StrAppend(&text, " workers ", changed->min_workers.value_or(0),
                      " to ", *changed->max_workers);
    }
    if (changed->queue.has_value()) {
      absl::StrAppend(&text, " queue ", *changed->queue);
    }
  } else if (const auto* const suspended =
                 std::get_if<JobSuspendedRecord>(&record)) {
    absl::StrAppend(&text, " step=", suspended->step,
                    suspended->is_saved ? "" : " lost",
                    suspended->lacks_work ? " lacks work" : "");
  } else if (const auto* const audited = std::get_if<AuditedRecord>(&record)) {
    absl::StrAppend(&text, audited->action, " ", audited->object, " by ",
                    audited->caller.name, " (", audited->caller.roles,
                    ") from ", audited->caller.address,
                    audited->detail.empty() ? "" : ": ", audited->detail);
  } else if (const auto* const ended = std::get_if<JobEndedRecord>(&record)) {
    absl::StrAppend(&text, " ", EnumName(ended->state), " code ",
                    ended->exit_code);
  } else if (const auto* const reached =
                 std::get_if<VerdictReachedRecord>(&record)) {
    absl::StrAppend(&text, ": ", ToText(reached->verdict));
  }
  return text;
}

// By shard: "primary/backup<source", as ranks; "-" for nobody.
std::string PlacementsText(
    const std::shared_ptr<const std::vector<ShardPlacement>>& placements) {
  if (placements == nullptr) return "";
  const auto rank = [](int rank) {
    return rank < 0 ? std::string("-") : absl::StrCat(rank);
  };
  std::string text;
  for (const ShardPlacement& shard : *placements) {
    absl::StrAppend(&text, text.empty() ? " shards=" : ",",
                    rank(shard.primary_rank), "/", rank(shard.backup_rank), "<",
                    rank(shard.source_rank));
  }
  return text;
}

// Two of the numbers tell which they are.
std::string CostsText(const std::optional<MachineCosts>& costs) {
  if (!costs.has_value()) return "";
  return absl::StrFormat(" costs=%gus/%d", costs->shared_memory.latency * 1e6,
                         costs->cores);
}

struct TextVisitor {
  const std::function<std::string(SessionId)>& session_name;

  std::string To(SessionId session) const {
    return absl::StrCat("to ", session_name(session), ": ");
  }

  std::string operator()(const SendWelcome& a) const {
    return absl::StrCat(To(a.session), "welcome",
                        a.protocol == kNewestProtocol
                            ? ""
                            : absl::StrCat(" protocol=", a.protocol));
  }
  std::string operator()(const SendAssignment& a) const {
    return absl::StrCat(
        To(a.session), a.is_rehearsal ? "rehearsal " : "assignment ", a.job_id,
        " gen=", a.generation, " rank=", a.self.rank, "/", a.world_size,
        " local=", a.self.local_rank, "/", a.local_world_size,
        " after=", a.resume_step,
        a.state_source_rank >= 0 ? absl::StrCat(" source=", a.state_source_rank)
                                 : "",
        a.is_newcomer ? " newcomer" : "", a.makes_no_step ? " no-step" : "",
        CostsText(a.costs),
        !a.is_rehearsal && a.integrity == v1::FRAME_INTEGRITY_UNSPECIFIED
            ? " unchecked"
            : "",
        a.integrity == v1::FRAME_INTEGRITY_AES_256_GCM ? " encrypted" : "",
        PlacementsText(a.placements));
  }
  std::string operator()(const SendStart& a) const {
    return absl::StrCat(To(a.session), "start gen=", a.generation);
  }
  std::string operator()(const SendHalt& a) const {
    return absl::StrCat(To(a.session), "halt gen=", a.generation, " ",
                        EnumName(a.verdict.decision()));
  }
  std::string operator()(const SendLeaveAdvice& a) const {
    return absl::StrCat(To(a.session), "advice: ", a.text);
  }
  std::string operator()(const SendProbe& a) const {
    std::string text =
        absl::StrCat(To(a.session), "probe gen=", a.probe.generation());
    if (a.probe.number() > 1)
      absl::StrAppend(&text, " number=", a.probe.number());
    for (const v1::ProbePeer& peer : a.probe.peers()) {
      absl::StrAppend(&text, " ", peer.rank(), "@", peer.data_address());
    }
    return text;
  }
  std::string operator()(const SendStop& a) const {
    return absl::StrCat(To(a.session), "stop gen=", a.generation, ": ",
                        a.reason);
  }
  std::string operator()(const SendPause& a) const {
    return absl::StrCat(
        To(a.session), "pause gen=", a.generation, a.leaves ? " leaves" : "",
        a.leavers > 0 ? absl::StrCat(" leavers=", a.leavers) : std::string(),
        ": ", a.reason);
  }
  std::string operator()(const SendRelease& a) const {
    return absl::StrCat(
        To(a.session), "release gen=", a.generation, " ", EnumName(a.state),
        a.exit_code == 0 ? std::string() : absl::StrCat(" code=", a.exit_code),
        ": ", a.message);
  }
  std::string operator()(const GatherFlight& a) const {
    std::string text =
        absl::StrCat("gather-flight ", a.job_id, " incident=", a.incident,
                     " gen=", a.generation);
    for (const MemberLife& member : a.members)
      absl::StrAppend(&text, " ", member.rank, "=", member.worker);
    return text;
  }
  std::string operator()(const CloseSession& a) const {
    return absl::StrCat("close ", session_name(a.session), ": ",
                        StatusText(a.status));
  }
  std::string operator()(const Persist& a) const {
    return absl::StrCat("persist ", RecordText(a.record));
  }
  std::string operator()(const ReplyToUser& a) const {
    return absl::StrCat("reply r", a.request, ": ",
                        a.job_id.empty() ? "" : a.job_id + " ",
                        StatusText(a.status));
  }
  std::string operator()(const EmitEvent& a) const {
    const v1::Event& event = a.event;
    std::string text = absl::StrCat(EnumName(event.severity()), " ",
                                    event.type(), ": ", event.message());
    if (event.has_verdict()) {
      absl::StrAppend(&text, " [", ToText(event.verdict()), "]");
    }
    return text;
  }
};

std::string WorkerText(const Worker& worker) {
  std::string text =
      absl::StrCat("worker ", worker.name, ": ", EnumName(worker.state));
  if (!worker.job_id.empty()) {
    absl::StrAppend(&text, " ", worker.job_id, " rank=", worker.rank,
                    " gen=", worker.generation, " step=", worker.step);
  }
  return text;
}

std::string JobText(const Job& job, int queue_position) {
  std::string text = absl::StrCat("job ", job.id, ": ", EnumName(job.state()));
  if (queue_position > 0) absl::StrAppend(&text, " queue=", queue_position);
  if (job.place.borrows && !IsEnded(job.state()))
    absl::StrAppend(&text, " borrows");
  if (job.generation > 0) {
    absl::StrAppend(&text, " gen=", job.generation, " members=");
    for (const Member& member : job.members) {
      absl::StrAppend(&text, member.identity.rank == 0 ? "" : ",",
                      member.identity.worker, member.is_lost ? "(lost)" : "");
    }
  }
  if (job.figures.step() > 0) {
    absl::StrAppend(&text, " step=", job.figures.step(),
                    " loss=", job.figures.loss());
  }
  if (job.figures.checkpoint_step() > 0) {
    absl::StrAppend(&text, " checkpoint=", job.figures.checkpoint_step());
  }
  for (const Member& member : job.members) {
    if (member.checkpoint_error.empty()) continue;
    absl::StrAppend(&text, " ", member.identity.worker,
                    " cannot write checkpoints (", member.checkpoint_error,
                    ")");
  }
  if (job.sample.has_value()) {
    absl::StrAppend(&text, " sample@", job.sample->step(), "=\"",
                    job.sample->prompt(), "|", job.sample->text(), "\"");
  }
  if (IsEnded(job.state())) absl::StrAppend(&text, " code=", job.exit_code);
  if (job.parameters_hash.has_value()) {
    absl::StrAppendFormat(&text, " hash=%x", *job.parameters_hash);
  }
  absl::StrAppend(&text, ": ", job.message);
  if (job.verdict.has_value()) {
    absl::StrAppend(&text, " [", ToText(*job.verdict), "]");
  }
  return text;
}

}  // namespace

std::string ToText(const Action& action,
                   const std::function<std::string(SessionId)>& session_name) {
  return std::visit(TextVisitor{session_name}, action);
}

std::string ToText(const v1::Verdict& verdict) {
  std::string text =
      verdict.worker().empty()
          ? std::string("nobody")
          : absl::StrCat(verdict.worker(), " (rank ", verdict.rank(), ")");
  absl::StrAppend(&text, " gen=", verdict.generation(),
                  " step=", verdict.step(), " ", EnumName(verdict.decision()),
                  " code ", verdict.exit_code());
  for (const v1::Evidence& evidence : verdict.evidence()) {
    absl::StrAppend(&text, "; ", EnumName(evidence.kind()), " by ",
                    evidence.observer());
  }
  return text;
}

std::string ToText(const State& state) {
  std::string text;
  if (!state.journal_error.empty()) {
    absl::StrAppend(&text, "journal error: ", state.journal_error, "\n");
  }
  if (state.other.has_value()) {
    absl::StrAppend(&text, "other coordinator: ", OtherCoordinatorText(state),
                    "\n");
  }
  for (const HostQuarantine& quarantine : state.quarantines) {
    absl::StrAppend(&text, "quarantine of host ", quarantine.host,
                    quarantine.job_id.empty() ? "" : " by ", quarantine.job_id,
                    quarantine.is_unfit ? " as unfit: " : ": ",
                    quarantine.reason, "\n");
  }
  for (const auto& [target, cordon] : state.cordons) {
    absl::StrAppend(&text, "cordon ", cordon.drains ? "draining " : "of ",
                    target, DueText(cordon.due_time),
                    cordon.is_due ? ", which has come" : "", "\n");
  }
  for (const auto& [name, figures] : FiguresOfQueues(state)) {
    const Queue& queue = state.queues.find(name)->second;
    absl::StrAppend(
        &text, "queue ", Sv(name), " has ", figures.workers, " workers, needs ",
        figures.needed, " of ", queue.spec.workers(),
        queue.spec.has_most_workers()
            ? absl::StrCat(" (at most ", queue.spec.most_workers(), ")")
            : "",
        ", ", figures.active_jobs, "+", figures.queued_jobs, " jobs, used ",
        static_cast<int64_t>(queue.used), "\n");
  }
  for (const auto& [number, job] : state.jobs) {
    absl::StrAppend(&text, JobText(job, state.QueuePosition(job)), "\n");
  }
  for (const auto& [name, worker] : state.workers) {
    absl::StrAppend(&text, WorkerText(worker), "\n");
  }
  return text;
}

}  // namespace ringmaster::coordinator
