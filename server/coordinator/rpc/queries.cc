#include "server/coordinator/rpc/queries.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/job/job_spec.h"
#include "common/protocol/proto_time.h"
#include "common/status/reason.h"
#include "common/status/status_macros.h"
#include "common/text/utf8.h"
#include "server/coordinator/core/account/explain.h"
#include "server/coordinator/core/state/turn.h"
#include "server/coordinator/journal/record_proto.h"
#include "server/coordinator/rpc/job_sharding.h"
#include "server/coordinator/rpc/session_message.h"

namespace ringmaster::coordinator {
namespace {

constexpr int kDefaultJobs = 100;
constexpr int kMaxJobs = 1000;
constexpr int kDefaultMembers = 256;
constexpr int kMaxMembers = 1024;
constexpr int kMaxEvents = 1000;
constexpr int kMaxAudit = 1000;
constexpr size_t kMaxRequestId = 128;
// A drain may be due within a year.
constexpr absl::Duration kMostWithin = absl::Hours(24 * 366);
constexpr char kWorkerToken[] = "worker ";
constexpr char kJobToken[] = "job ";
constexpr char kWrongToken[] =
    "page_token must be empty or the next_page_token of an earlier answer";

absl::Status BadRequest(const std::string& message) {
  return WithReason(absl::InvalidArgumentError(message),
                    reason::kInvalidRequest);
}

// 0 means `fallback`; more than `limit` is taken as `limit` (AIP-158).
absl::StatusOr<int> PageSize(int32_t wanted, int fallback, int limit) {
  if (wanted < 0) {
    return BadRequest(
        absl::StrCat("page_size must not be negative, got ", wanted));
  }
  return wanted == 0 ? fallback : std::min<int>(wanted, limit);
}

// `first` without a token.
absl::StatusOr<int64_t> PageStart(const std::string& token, int64_t first) {
  if (token.empty()) return first;
  int64_t start = 0;
  if (!absl::SimpleAtoi(token, &start) || start < 0) {
    return BadRequest(kWrongToken);
  }
  return start;
}

}  // namespace

absl::StatusOr<v1::GetJobResponse> GetJob(const State& state,
                                          const v1::GetJobRequest& request) {
  ASSIGN_OR_RETURN(const Job* const job, state.LookUpJob(request.job()));
  v1::GetJobResponse response;
  *response.mutable_job() = JobProto(state, *job);
  for (const Membership& membership : job->memberships) {
    *response.mutable_job()->add_memberships() = MembershipProto(membership);
  }
  return response;
}

absl::StatusOr<v1::ListJobsResponse> ListJobs(
    const State& state, const v1::ListJobsRequest& request) {
  ASSIGN_OR_RETURN(const int size,
                   PageSize(request.page_size(), kDefaultJobs, kMaxJobs));
  // Jobs with lower numbers are on this page and the next ones.
  ASSIGN_OR_RETURN(
      const int64_t before,
      PageStart(request.page_token(), std::numeric_limits<int64_t>::max()));
  v1::ListJobsResponse response;
  size_t bytes = 0;
  const QueueOutlook outlook(state);
  auto it = state.jobs.lower_bound(before);
  while (it != state.jobs.begin()) {
    --it;
    v1::Job job = JobProto(state, it->second, MemberDetail::kAll, &outlook);
    bytes += job.ByteSizeLong();
    if (response.jobs_size() == size ||
        (bytes > kMaxPageBytes && response.jobs_size() > 0)) {
      response.set_next_page_token(absl::StrCat(it->first + 1));
      break;
    }
    *response.add_jobs() = std::move(job);
  }
  return response;
}

absl::StatusOr<v1::GetStatusResponse> GetStatus(
    const StatusSource& source, const v1::GetStatusRequest& request) {
  const State& state = source.state;
  const StatusFilter filter(request.filter());
  v1::GetStatusResponse response;
  if (request.page_size() == 0 && request.page_token().empty()) {
    *response.mutable_status() = StatusProto(source, filter);
    return response;
  }
  ASSIGN_OR_RETURN(const int size, PageSize(request.page_size(), kMaxJobs,
                                            std::numeric_limits<int>::max()));
  // "worker NAME" or "job NUMBER": the last of the page before.
  absl::string_view after = request.page_token();
  const bool has_workers = !absl::ConsumePrefix(&after, kJobToken);
  if (has_workers && !after.empty() &&
      !absl::ConsumePrefix(&after, kWorkerToken)) {
    return BadRequest(kWrongToken);
  }
  ASSIGN_OR_RETURN(const int64_t before_job,
                   PageStart(has_workers ? "" : std::string(after),
                             std::numeric_limits<int64_t>::max()));
  v1::Status& status = *response.mutable_status();
  status = StatusFrame(source);
  size_t bytes = 0;
  std::string last;
  // Returns false if the page is full.
  const auto has_room = [&](size_t more) {
    const bool is_full = status.workers_size() + status.jobs_size() == size ||
                         (bytes + more > kMaxPageBytes && bytes > 0);
    if (is_full) response.set_next_page_token(last);
    bytes += more;
    return !is_full;
  };
  for (auto it = has_workers ? state.workers.upper_bound(std::string(after))
                             : state.workers.end();
       it != state.workers.end(); ++it) {
    if (!filter.Matches(state, it->second)) continue;
    v1::Worker worker = WorkerProto(state, it->second, source.now);
    if (!has_room(worker.ByteSizeLong())) return response;
    *status.add_workers() = std::move(worker);
    last = absl::StrCat(kWorkerToken, it->first);
  }
  const QueueOutlook outlook(state);
  for (const Job* const job : ShownJobs(state, filter)) {
    if (job->number >= before_job) continue;
    v1::Job shown = StatusJobProto(state, *job, outlook);
    if (!has_room(shown.ByteSizeLong())) return response;
    *status.add_jobs() = std::move(shown);
    last = absl::StrCat(kJobToken, job->number);
  }
  return response;
}

absl::StatusOr<v1::ListEventsResponse> ListEvents(
    const State& state, const EventLog& events, const CoordinatorIdentity& self,
    const v1::ListEventsRequest& request) {
  ASSIGN_OR_RETURN(const int size,
                   PageSize(request.page_size(), kMaxEvents, kMaxEvents));
  std::string job_id;
  if (!request.job().empty()) {
    // The events of a job that the state has forgotten may still be there.
    const absl::StatusOr<const Job*> job = state.LookUpJob(request.job());
    if (!job.ok() && !absl::IsNotFound(job.status())) return job.status();
    job_id = job.ok() ? (*job)->id : request.job();
  }
  v1::ListEventsResponse response;
  response.set_coordinator_incarnation(self.incarnation);
  *response.mutable_events() =
      events.After(request.after_sequence(), job_id, size, kMaxPageBytes);
  return response;
}

absl::StatusOr<v1::ListAuditResponse> ListAudit(
    const State& state, const v1::ListAuditRequest& request) {
  ASSIGN_OR_RETURN(const int size,
                   PageSize(request.page_size(), kMaxAudit, kMaxAudit));
  ASSIGN_OR_RETURN(const int64_t start, PageStart(request.page_token(), 0));
  const int64_t count = static_cast<int64_t>(state.audit.size());
  const int64_t end = std::min(count, std::min(start, count) + size);
  v1::ListAuditResponse response;
  size_t bytes = 0;
  int64_t at = start;
  while (at < end && bytes < kMaxPageBytes) {
    v1::AuditEntry& entry = *response.add_entries();
    entry = AuditEntryProto(state.audit[count - 1 - at++]);
    bytes += entry.ByteSizeLong();
  }
  if (at < count) response.set_next_page_token(absl::StrCat(at));
  return response;
}

absl::StatusOr<v1::ListMembersResponse> ListMembers(
    const State& state, const v1::ListMembersRequest& request) {
  ASSIGN_OR_RETURN(const int size,
                   PageSize(request.page_size(), kDefaultMembers, kMaxMembers));
  ASSIGN_OR_RETURN(const int64_t start, PageStart(request.page_token(), 0));
  ASSIGN_OR_RETURN(const Job* const job, state.LookUpJob(request.job_id()));
  if (request.generation() != 0 && request.generation() != job->generation) {
    return WithReason(
        absl::AbortedError(absl::StrCat(
            "job ", job->id, " is at generation ", job->generation, ", not ",
            request.generation(), "; wait for a new assignment")),
        reason::kStaleGeneration);
  }
  const int64_t count = static_cast<int64_t>(job->members.size());
  const int world_size = MemberCount(*job, v1::ROLE_WORKER);
  // The token is the client's: it may be any number.
  const int64_t end = std::min(count, std::min(start, count) + size);
  v1::ListMembersResponse response;
  response.set_generation(job->generation);
  for (int64_t rank = start; rank < end; ++rank) {
    const Member& member = job->members[rank];
    *response.add_members() =
        MemberProto(member.identity, world_size, member.step);
  }
  if (end < count) response.set_next_page_token(absl::StrCat(end));
  return response;
}

absl::StatusOr<v1::ExplainJobResponse> ExplainJob(
    const State& state, const Config& config, MonotonicTime now,
    absl::Duration journal_wait, const v1::ExplainJobRequest& request) {
  ASSIGN_OR_RETURN(const Job* const job, state.LookUpJob(request.job()));
  Explanation explanation = Explain(state, *job, config, now, journal_wait);
  v1::ExplainJobResponse response;
  response.set_job_id(job->id);
  response.set_state(explanation.state);
  response.set_summary(std::move(explanation.summary));
  for (std::string& reason : explanation.reasons) {
    response.add_reasons(std::move(reason));
  }
  for (const BlockingWorker& worker : explanation.blocking) {
    v1::BlockingWorker& blocking = *response.add_blocking_workers();
    blocking.set_worker(worker.worker);
    blocking.set_rank(worker.rank);
    blocking.set_host(worker.host);
    if (worker.silence.has_value()) {
      *blocking.mutable_last_heard_age() = ToProto(*worker.silence);
    }
    blocking.set_phase(worker.phase);
    blocking.set_step(worker.step);
    blocking.set_reason(worker.reason);
    blocking.set_role(worker.role);
  }
  response.set_what_unblocks(std::move(explanation.what_unblocks));
  if (explanation.predicted_wait.has_value()) {
    *response.mutable_predicted_wait() = ToProto(*explanation.predicted_wait);
  }
  if (!job->incidents.empty()) {
    *response.mutable_last_incident() = job->incidents.back();
  }
  *response.mutable_goodput() = GoodputProto(state, *job);
  return response;
}

absl::StatusOr<SubmitRequested> ParseSubmit(
    const v1::SubmitJobRequest& request) {
  if (request.request_id().size() > kMaxRequestId) {
    return BadRequest(absl::StrCat("request_id must have at most ",
                                   kMaxRequestId, " bytes, got ",
                                   request.request_id().size()));
  }
  ASSIGN_OR_RETURN(const v1::JobSpec spec, ValidateAndDefault(request.spec()));
  SubmitRequested submit;
  static_cast<JobTerms&>(submit) = TermsOf(spec);
  submit.request_id = request.request_id();
  return submit;
}

CancelRequested ParseCancel(const v1::CancelJobRequest& request) {
  return {.job = request.job(),
          .reason = BoundedUtf8(request.reason(), kMaxText)};
}

absl::StatusOr<CordonRequested> ParseCordon(const v1::CordonRequest& request) {
  CordonRequested cordon = {.target = request.target(),
                            .drains = request.drain(),
                            .reason = BoundedUtf8(request.reason(), kMaxText)};
  if (!request.has_within()) return cordon;
  cordon.within = FromProto(request.within());
  if (!request.drain() || cordon.within <= absl::ZeroDuration() ||
      cordon.within > kMostWithin) {
    return BadRequest(absl::StrCat(
        "within must be above 0 and at most 366 days, and of a drain; got ",
        absl::FormatDuration(cordon.within),
        request.drain() ? "" : " of a cordon"));
  }
  return cordon;
}

CordonRequested ParseUncordon(const v1::UncordonRequest& request) {
  return {.target = request.target(), .is_lifted = true};
}

absl::StatusOr<ChangeRequested> ParseChange(
    const v1::ChangeJobRequest& request) {
  ChangeRequested change;
  change.job = request.job();
  change.reason = BoundedUtf8(request.reason(), kMaxText);
  if (request.has_suspended()) change.is_suspended = request.suspended();
  if (request.has_min_workers()) change.min_workers = request.min_workers();
  if (request.has_max_workers()) change.max_workers = request.max_workers();
  if (request.has_queue()) {
    if (absl::Status status = CheckName("queue", request.queue()); !status.ok())
      return BadRequest(std::string(status.message()));
    change.queue = request.queue();
  }
  if (request.has_priority()) {
    // The same bounds as a job's own.
    const v1::FieldRule& rule =
        v1::JobSpec::descriptor()
            ->FindFieldByNumber(v1::JobSpec::kPriorityFieldNumber)
            ->options()
            .GetExtension(v1::rule);
    if (request.priority() < rule.at_least() ||
        request.priority() > rule.at_most()) {
      return BadRequest(absl::StrCat("priority must be from ", rule.at_least(),
                                     " to ", rule.at_most(), ", got ",
                                     request.priority()));
    }
    change.priority = request.priority();
  }
  if (static_cast<const JobChange&>(change) == JobChange()) {
    return BadRequest(
        "nothing is to change: give priority, suspended, min_workers, "
        "max_workers or queue");
  }
  return change;
}

absl::StatusOr<v1::FlightRecord> KeptFlight(const Job& job, int incident,
                                            const FlightRecords& records) {
  const v1::FlightRecord* const record = records.Find(job.id, incident);
  if (record != nullptr) return *record;
  const int last = job.incidents.empty() ? 0 : job.incidents.back().number();
  std::string why = absl::StrCat("job ", job.id);
  if (incident > last) {
    absl::StrAppend(&why, " has had ", Counted(static_cast<size_t>(last), "incident"), " only");
  } else {
    absl::StrAppend(
        &why, " has no flight record of incident ", incident,
        ": one is made of incidents that are not wanted, once the job goes on, "
        "and the last ",
        FlightRecords::kMaxRecords, " of all jobs are kept");
  }
  return WithReason(absl::NotFoundError(why), reason::kInvalidRequest);
}

absl::Status CheckFlight(const v1::GetFlightRecordRequest& request) {
  if (request.incident() >= 0) return absl::OkStatus();
  return BadRequest(
      absl::StrCat("incident must not be negative, got ", request.incident()));
}

absl::Status CheckTrace(const v1::GetTraceRequest& request) {
  if (request.first_step() < 0) {
    return BadRequest(absl::StrCat("first_step must not be negative, got ",
                                   request.first_step()));
  }
  if (request.last_step() != 0 && request.last_step() < request.first_step()) {
    return BadRequest(
        absl::StrCat("last_step must be 0 or at least first_step (",
                     request.first_step(), "), got ", request.last_step()));
  }
  return absl::OkStatus();
}

}  // namespace ringmaster::coordinator
