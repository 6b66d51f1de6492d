#include "server/coordinator/core/turn.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/reason.h"

namespace ringmaster::coordinator {

void Turn::Persist(JournalRecord record, std::vector<RequestToken> waiting) {
  if (!state.journal_error.empty()) {
    for (RequestToken request : waiting) {
      Reply(request, JournalUnavailable(Describe(record), state.journal_error),
            JobIdOf(record));
    }
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

void Turn::Emit(EventSeverity severity, std::string_view type,
                std::string_view worker, std::string message) {
  EmitEvent event;
  event.severity = severity;
  event.type = std::string(type);
  event.worker = std::string(worker);
  event.message = std::move(message);
  event.time = time;
  Do(std::move(event));
}

void Turn::Emit(EventSeverity severity, std::string_view type, const Job& job,
                std::string_view worker, std::string message,
                const v1::Verdict* verdict, std::optional<int64_t> step) {
  EmitEvent event;
  event.severity = severity;
  event.type = std::string(type);
  event.job_id = job.id;
  event.worker = std::string(worker);
  event.generation = job.generation;
  event.step = step.value_or(job.best_step);
  event.message = std::move(message);
  if (verdict != nullptr) event.verdict = *verdict;
  event.time = time;
  Do(std::move(event));
}

Member* MemberOf(State& state, const Worker& worker) {
  Job* const job = state.ActiveJob();
  if (job == nullptr || worker.job_id != job->id || worker.rank < 0 ||
      worker.rank >= static_cast<int>(job->members.size())) {
    return nullptr;
  }
  Member& member = job->members[worker.rank];
  const bool is_same = member.identity.worker == worker.name &&
                       member.identity.incarnation == worker.incarnation;
  return is_same && !member.is_lost ? &member : nullptr;
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
  };
  return absl::StrCat("the ", Sv(std::visit(Visitor(), record)), " of job ",
                      JobIdOf(record));
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
      Counted(static_cast<size_t>(MemberCount(job, Role::kWorker)), "rank"),
      AndServers(MemberCount(job, Role::kParameterServer)));
}

std::string Describe(const MemberIdentity& identity) {
  return absl::StrCat(Sv(NameOf(identity.role)), " ", identity.worker,
                      " (rank ", identity.rank, ", host ", identity.host,
                      ", pid ", identity.pid, ")");
}

}  // namespace ringmaster::coordinator
