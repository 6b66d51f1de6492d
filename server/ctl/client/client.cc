#include "server/ctl/client/client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_status.h"
#include "common/status/reason.h"
#include "common/status/status_macros.h"
#include "common/sync/mutex.h"
#include "ringmaster/v1/job_service.grpc.pb.h"
#include "ringmaster/v1/pool_service.grpc.pb.h"
#include "ringmaster/v1/status_service.grpc.pb.h"
#include "server/ctl/client/explain.h"

namespace ringmaster::ctl {
namespace {

// More workers and jobs than most clusters have, and less than a message may hold.
constexpr int kStatusPage = 4096;

absl::Status ShutDownError() {
  return absl::CancelledError("the client was shut down");
}

}  // namespace

struct Client::Connection {
  // A connection of its own: one shared with an older channel would keep that
  // channel's address and its back-off.
  explicit Connection(const ClientOptions& options)
      : channel(MakeChannel(options.address, options.credentials,
                            {.has_own_connection = true})),
        jobs(v1::JobService::NewStub(channel)),
        pool(v1::PoolService::NewStub(channel)),
        status(v1::StatusService::NewStub(channel)) {}

  const std::shared_ptr<grpc::Channel> channel;
  const std::unique_ptr<v1::JobService::Stub> jobs;
  const std::unique_ptr<v1::PoolService::Stub> pool;
  const std::unique_ptr<v1::StatusService::Stub> status;
};

// The calls under way, so that another thread can end them.
class Client::Calls {
 public:
  // Registers `context` for its life; false if the client was shut down.
  bool Add(grpc::ClientContext* context) {
    MutexLock lock(mutex_);
    if (is_shut_down_) return false;
    contexts_.insert(context);
    return true;
  }

  void Remove(grpc::ClientContext* context) {
    MutexLock lock(mutex_);
    contexts_.erase(context);
  }

  void CancelAll() {
    MutexLock lock(mutex_);
    is_shut_down_ = true;
    // Under the lock, since a context lives only until Remove returns.
    // TryCancel only posts to gRPC's own threads.
    for (grpc::ClientContext* context : contexts_) context->TryCancel();
  }

 private:
  Mutex mutex_;
  bool is_shut_down_ GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> contexts_ GUARDED_BY(mutex_);
};

Client::Client(ClientOptions options)
    : Client(options, std::make_shared<Connection>(options)) {}

Client::Client(ClientOptions options, std::shared_ptr<Connection> connection)
    : options_(std::move(options)),
      connection_(std::move(connection)),
      calls_(std::make_unique<Calls>()) {}

Client::~Client() = default;

void Client::Reconnect() {
  auto connection = std::make_shared<Connection>(options_);
  MutexLock lock(mutex_);
  connection_.swap(connection);
}

std::unique_ptr<Client> Client::Share() const {
  return std::unique_ptr<Client>(new Client(options_, connection()));
}

const std::string& Client::address() const { return options_.address; }

void Client::Shutdown() { calls_->CancelAll(); }

std::shared_ptr<Client::Connection> Client::connection() const {
  MutexLock lock(mutex_);
  return connection_;
}

template <typename Stub, typename Request, typename Response, typename Method>
absl::Status Client::Call(Stub Connection::*stub, Method method,
                          const Request& request, Response* response) {
  const std::shared_ptr<Connection> connection = this->connection();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoNanoseconds(options_.timeout));
  if (!calls_->Add(&context)) return ShutDownError();
  auto& service = *((*connection).*stub);
  const grpc::Status status = (service.*method)(&context, request, response);
  calls_->Remove(&context);
  return Explain(FromGrpcStatus(status), options_.address, options_.timeout);
}

absl::StatusOr<v1::Job> Client::SubmitJob(const v1::JobSpec& spec,
                                          bool validate_only,
                                          const std::string& request_id) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = spec;
  request.set_validate_only(validate_only);
  request.set_request_id(request_id);
  v1::SubmitJobResponse response;
  RETURN_IF_ERROR(Call(&Connection::jobs, &v1::JobService::Stub::SubmitJob,
                       request, &response));
  return std::move(*response.mutable_job());
}

absl::StatusOr<v1::Job> Client::GetJob(const std::string& job) {
  v1::GetJobRequest request;
  request.set_job(job);
  v1::GetJobResponse response;
  RETURN_IF_ERROR(Call(&Connection::jobs, &v1::JobService::Stub::GetJob,
                       request, &response));
  return std::move(*response.mutable_job());
}

absl::StatusOr<v1::Job> Client::CancelJob(const std::string& job,
                                          const std::string& reason) {
  v1::CancelJobRequest request;
  request.set_job(job);
  request.set_reason(reason);
  v1::CancelJobResponse response;
  RETURN_IF_ERROR(Call(&Connection::jobs, &v1::JobService::Stub::CancelJob,
                       request, &response));
  return std::move(*response.mutable_job());
}

absl::StatusOr<v1::Job> Client::ChangeJob(const v1::ChangeJobRequest& request) {
  v1::ChangeJobResponse response;
  RETURN_IF_ERROR(Call(&Connection::jobs, &v1::JobService::Stub::ChangeJob,
                       request, &response));
  return std::move(*response.mutable_job());
}

absl::StatusOr<v1::ListEventsResponse> Client::ListEvents(
    const std::string& job, int64_t after_sequence) {
  v1::ListEventsRequest request;
  request.set_job(job);
  request.set_after_sequence(after_sequence);
  v1::ListEventsResponse response;
  RETURN_IF_ERROR(Call(&Connection::jobs, &v1::JobService::Stub::ListEvents,
                       request, &response));
  return response;
}

absl::StatusOr<v1::ListEventsResponse> Client::AllEvents(
    const std::string& job, int64_t after_sequence) {
  v1::ListEventsResponse all;
  int64_t after = after_sequence;
  while (true) {
    ASSIGN_OR_RETURN(v1::ListEventsResponse page, ListEvents(job, after));
    all.set_coordinator_incarnation(page.coordinator_incarnation());
    // The sequence rises; a server that breaks this rule must not keep us here.
    if (page.events().empty() || page.events().rbegin()->sequence() <= after)
      return all;
    after = page.events().rbegin()->sequence();
    for (v1::Event& event : *page.mutable_events())
      *all.add_events() = std::move(event);
  }
}

absl::StatusOr<v1::ListJobsResponse> Client::AllJobs() {
  v1::ListJobsResponse all;
  v1::ListJobsRequest request;
  while (true) {
    v1::ListJobsResponse page;
    RETURN_IF_ERROR(Call(&Connection::jobs, &v1::JobService::Stub::ListJobs,
                         request, &page));
    const bool is_last = page.jobs().empty() ||
                         page.next_page_token().empty() ||
                         page.next_page_token() == request.page_token();
    request.set_page_token(page.next_page_token());
    for (v1::Job& job : *page.mutable_jobs()) *all.add_jobs() = std::move(job);
    if (is_last) return all;
  }
}

absl::Status Client::Cordon(const v1::CordonRequest& request) {
  v1::CordonResponse response;
  return Call(&Connection::pool, &v1::PoolService::Stub::Cordon, request,
              &response);
}

absl::Status Client::Uncordon(const std::string& target) {
  v1::UncordonRequest request;
  request.set_target(target);
  v1::UncordonResponse response;
  return Call(&Connection::pool, &v1::PoolService::Stub::Uncordon, request,
              &response);
}

absl::Status Client::SetQueues(const v1::SetQueuesRequest& request) {
  v1::SetQueuesResponse response;
  return Call(&Connection::pool, &v1::PoolService::Stub::SetQueues, request,
              &response);
}

absl::StatusOr<v1::ListAuditResponse> Client::ListAudit(int64_t entries) {
  v1::ListAuditResponse all;
  v1::ListAuditRequest request;
  // The coordinator bounds it.
  request.set_page_size(static_cast<int>(std::min<int64_t>(entries, 1000)));
  while (true) {
    v1::ListAuditResponse page;
    RETURN_IF_ERROR(Call(&Connection::status,
                         &v1::StatusService::Stub::ListAudit, request, &page));
    for (v1::AuditEntry& entry : *page.mutable_entries()) {
      *all.add_entries() = std::move(entry);
      if (all.entries_size() == entries) return all;
    }
    // A server that gives the same page again must not keep us here.
    if (page.entries().empty() || page.next_page_token().empty() ||
        page.next_page_token() == request.page_token()) {
      return all;
    }
    request.set_page_token(page.next_page_token());
  }
}

absl::StatusOr<v1::GetTraceResponse> Client::GetTrace(const std::string& job,
                                                      int64_t first_step,
                                                      int64_t last_step) {
  v1::GetTraceRequest request;
  request.set_job(job);
  request.set_first_step(first_step);
  request.set_last_step(last_step);
  v1::GetTraceResponse response;
  RETURN_IF_ERROR(Call(&Connection::jobs, &v1::JobService::Stub::GetTrace,
                       request, &response));
  return response;
}

absl::StatusOr<v1::FlightRecord> Client::GetFlightRecord(const std::string& job,
                                                         int32_t incident) {
  v1::GetFlightRecordRequest request;
  request.set_job(job);
  request.set_incident(incident);
  v1::GetFlightRecordResponse response;
  RETURN_IF_ERROR(Call(&Connection::jobs,
                       &v1::JobService::Stub::GetFlightRecord, request,
                       &response));
  return std::move(*response.mutable_record());
}

absl::StatusOr<v1::ExplainJobResponse> Client::ExplainJob(
    const std::string& job) {
  v1::ExplainJobRequest request;
  request.set_job(job);
  v1::ExplainJobResponse response;
  RETURN_IF_ERROR(Call(&Connection::jobs, &v1::JobService::Stub::ExplainJob,
                       request, &response));
  return response;
}

absl::StatusOr<v1::Status> Client::GetStatus(const v1::StatusFilter& filter) {
  v1::GetStatusRequest request;
  *request.mutable_filter() = filter;
  request.set_page_size(kStatusPage);
  v1::Status status;
  do {
    v1::GetStatusResponse page;
    RETURN_IF_ERROR(Call(&Connection::status,
                         &v1::StatusService::Stub::GetStatus, request, &page));
    if (request.page_token().empty()) {
      status = std::move(*page.mutable_status());
    } else {
      status.mutable_workers()->MergeFrom(page.status().workers());
      status.mutable_jobs()->MergeFrom(page.status().jobs());
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return status;
}

absl::StatusOr<v1::GetLogsResponse> Client::GetLogs(
    const v1::GetLogsRequest& request) {
  v1::GetLogsResponse response;
  RETURN_IF_ERROR(Call(&Connection::status, &v1::StatusService::Stub::GetLogs,
                       request, &response));
  return response;
}

absl::Status Client::WatchJob(
    const std::string& job,
    const std::function<void(const v1::Job&)>& on_update) {
  v1::WatchJobRequest request;
  request.set_job(job);
  const std::shared_ptr<Connection> connection = this->connection();
  grpc::ClientContext context;
  if (!calls_->Add(&context)) return ShutDownError();
  const std::unique_ptr<grpc::ClientReader<v1::WatchJobResponse>> reader =
      connection->jobs->WatchJob(&context, request);
  v1::WatchJobResponse response;
  bool was_connected = false;
  while (reader->Read(&response)) {
    was_connected = true;
    on_update(response.job());
  }
  const absl::Status status = FromGrpcStatus(reader->Finish());
  calls_->Remove(&context);
  if (was_connected && absl::IsUnavailable(status) &&
      ReasonOf(status).empty()) {
    return absl::UnavailableError(
        absl::StrCat("the connection to the coordinator at ", options_.address,
                     " broke (", status.message(), ")"));
  }
  return Explain(status, options_.address, options_.timeout);
}

}  // namespace ringmaster::ctl
