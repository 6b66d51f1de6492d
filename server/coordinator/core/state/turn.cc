#include "server/coordinator/core/state/turn.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"
#include "common/status/reason.h"

namespace ringmaster::coordinator {

void Turn::Persist(JournalRecord record, std::vector<RequestToken> waiting) {
  if (!state.journal_error.empty()) {
    Reply(waiting, JournalUnavailable(Describe(record), state.journal_error),
          JobIdOf(record));
    outbox.deferred.push_back({std::move(record), {}});
    return;
  }
  const PersistToken token = ++outbox.last_token;
  outbox.in_flight.emplace(token, PendingRecord{record, std::move(waiting)});
  Do(coordinator::Persist{token, std::move(record)});
}

void Turn::Reply(RequestToken request, absl::Status status,
                 std::string job_id) {
  Do(ReplyToUser{request, std::move(status), std::move(job_id)});
}

void Turn::Reply(const std::vector<RequestToken>& requests,
                 const absl::Status& status, const std::string& job_id) {
  for (const RequestToken request : requests) Reply(request, status, job_id);
}

void Turn::Emit(v1::EventSeverity severity, std::string_view type,
                std::string_view worker, std::string message) {
  EmitEvent emit;
  emit.event.set_severity(severity);
  emit.event.set_type(std::string(type));
  emit.event.set_worker(std::string(worker));
  emit.event.set_message(std::move(message));
  *emit.event.mutable_time() = ToProto(time);
  Do(std::move(emit));
}

void Turn::Emit(v1::EventSeverity severity, std::string_view type,
                const Job& job, std::string_view worker, std::string message,
                const v1::Verdict* verdict, std::optional<int64_t> step) {
  Emit(severity, type, worker, std::move(message));
  v1::Event& event = std::get<EmitEvent>(actions.back()).event;
  event.set_job_id(job.id);
  event.set_generation(job.generation);
  event.set_step(step.value_or(job.best_step));
  if (verdict != nullptr) *event.mutable_verdict() = *verdict;
}

const Member* MemberOf(const State& state, const Worker& worker) {
  const Job* const job = state.JobOf(worker);
  if (job == nullptr || worker.rank < 0 ||
      worker.rank >= static_cast<int>(job->members.size())) {
    return nullptr;
  }
  const Member& member = job->members[worker.rank];
  const bool is_same = member.identity.worker == worker.name &&
                       member.identity.incarnation == worker.incarnation;
  return is_same && !member.is_lost ? &member : nullptr;
}

Member* MemberOf(State& state, const Worker& worker) {
  return const_cast<Member*>(MemberOf(std::as_const(state), worker));
}

const Member* MemberIn(const State& state, const Worker& worker,
                       int64_t generation) {
  const Member* const member = MemberOf(state, worker);
  if (member == nullptr) return nullptr;
  const Job& job = *state.JobOf(worker);
  const bool is_current = generation == job.generation && job.is_assigned &&
                          !job.ending.has_value();
  return is_current ? member : nullptr;
}

Member* MemberIn(State& state, const Worker& worker, int64_t generation) {
  return const_cast<Member*>(
      MemberIn(std::as_const(state), worker, generation));
}

absl::Status JournalUnavailable(std::string_view what, std::string_view why) {
  return WithReason(absl::UnavailableError(absl::StrCat(
                        Sv(what), " cannot be made durable: ", Sv(why),
                        ". Free or repair the state directory's disk, then "
                        "try again.")),
                    reason::kJournalUnavailable);
}

std::string Describe(const JournalRecord& record) {
  struct Visitor {
    std::string_view operator()(const JobCreatedRecord&) { return "creation"; }
    std::string_view operator()(const GenerationFormedRecord&) {
      return "new generation";
    }
    std::string_view operator()(const CancelRequestedRecord&) {
      return "cancellation";
    }
    std::string_view operator()(const VerdictReachedRecord&) {
      return "verdict";
    }
    std::string_view operator()(const JobEndedRecord&) { return "end"; }
    std::string_view operator()(const HostQuarantinedRecord&) {
      return "quarantine of a host";
    }
    std::string_view operator()(const AuditedRecord&) {
      return "record of a change";
    }
    std::string_view operator()(const CordonedRecord&) { return "cordon"; }
    std::string_view operator()(const QueuesChangedRecord&) {
      return "change of the queues";
    }
    std::string_view operator()(const JobChangedRecord&) { return "change"; }
    std::string_view operator()(const JobSuspendedRecord&) {
      return "suspension";
    }
  };
  const std::string& job = JobIdOf(record);
  return absl::StrCat("the ", Sv(std::visit(Visitor(), record)),
                      job.empty() ? "" : " of job ", job);
}

std::string Counted(size_t count, std::string_view noun) {
  return absl::StrCat(count, " ", Sv(noun), count == 1 ? "" : "s");
}

std::string AndServers(int servers) {
  if (servers == 0) return "";
  return absl::StrCat(
      " and ", Counted(static_cast<size_t>(servers), "parameter server"));
}

std::string RanksText(const Job& job) {
  return absl::StrCat(
      Counted(static_cast<size_t>(MemberCount(job, v1::ROLE_WORKER)), "rank"),
      AndServers(MemberCount(job, v1::ROLE_PARAMETER_SERVER)));
}

std::string Describe(const MemberIdentity& identity) {
  return absl::StrCat(Sv(NameOf(identity.role)), " ", identity.worker,
                      " (rank ", identity.rank, ", host ", identity.host,
                      ", pid ", identity.pid, ")");
}

}  // namespace ringmaster::coordinator
