// The answers to users' questions, made from the state; and the commands made
// from their requests. Pure.
//
// Errors carry their reason; those of State::LookUpJob, where a request names a
// job, are passed on. A malformed request is
// INVALID_ARGUMENT/INVALID_REQUEST and names the field.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_QUERIES_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_QUERIES_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "ringmaster/v1/coordinator_service.pb.h"
#include "ringmaster/v1/job_service.pb.h"
#include "ringmaster/v1/pool_service.pb.h"
#include "ringmaster/v1/status_service.pb.h"
#include "server/coordinator/core/state/config.h"
#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/state.h"
#include "server/coordinator/rpc/event_log.h"
#include "server/coordinator/rpc/flight_gathering.h"
#include "server/coordinator/rpc/state_proto.h"

namespace ringmaster::coordinator {

// Pages end at this size, well below the largest message, even if more was
// asked for.
inline constexpr size_t kMaxPageBytes = 2 << 20;

[[nodiscard]] absl::StatusOr<v1::GetJobResponse> GetJob(
    const State& state, const v1::GetJobRequest& request);

// Page tokens name the last job of the previous page, so that new jobs do not
// shift later pages.
[[nodiscard]] absl::StatusOr<v1::ListJobsResponse> ListJobs(
    const State& state, const v1::ListJobsRequest& request);

// A page ends with the last worker or job that it has; workers come first, by name,
// then jobs, newest first. Without a page size there is one page.
[[nodiscard]] absl::StatusOr<v1::GetStatusResponse> GetStatus(
    const StatusSource& source, const v1::GetStatusRequest& request);

// `self` counts the events; another process counts its own from 1.
[[nodiscard]] absl::StatusOr<v1::ListEventsResponse> ListEvents(
    const State& state, const EventLog& events, const CoordinatorIdentity& self,
    const v1::ListEventsRequest& request);

// Newest first; page tokens count the entries that came before.
[[nodiscard]] absl::StatusOr<v1::ListAuditResponse> ListAudit(
    const State& state, const v1::ListAuditRequest& request);

[[nodiscard]] absl::StatusOr<v1::ListMembersResponse> ListMembers(
    const State& state, const v1::ListMembersRequest& request);

// Explains the state of a job at `now`; see explain.h.
[[nodiscard]] absl::StatusOr<v1::ExplainJobResponse> ExplainJob(
    const State& state, const Config& config, MonotonicTime now,
    absl::Duration journal_wait, const v1::ExplainJobRequest& request);

// Returns SubmitJob's request to the core; the spec is validated and has its
// defaults.
//   INVALID_ARGUMENT/INVALID_JOB_SPEC
[[nodiscard]] absl::StatusOr<SubmitRequested> ParseSubmit(
    const v1::SubmitJobRequest& request);

[[nodiscard]] CancelRequested ParseCancel(const v1::CancelJobRequest& request);

// INVALID_ARGUMENT if the time of a drain is out of its bounds.
[[nodiscard]] absl::StatusOr<CordonRequested> ParseCordon(
    const v1::CordonRequest& request);
[[nodiscard]] CordonRequested ParseUncordon(const v1::UncordonRequest& request);

// INVALID_ARGUMENT if nothing is to change, or a priority is out of its bounds.
[[nodiscard]] absl::StatusOr<ChangeRequested> ParseChange(
    const v1::ChangeJobRequest& request);

// Returns the record of that incident (> 0) of `job`.
//   NOT_FOUND/INVALID_REQUEST  there is no such incident, or its record is not there
//                              yet, or no more
[[nodiscard]] absl::StatusOr<v1::FlightRecord> KeptFlight(
    const Job& job, int incident, const FlightRecords& records);

[[nodiscard]] absl::Status CheckFlight(
    const v1::GetFlightRecordRequest& request);

// Checks a trace's range of steps.
[[nodiscard]] absl::Status CheckTrace(const v1::GetTraceRequest& request);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_QUERIES_H_
