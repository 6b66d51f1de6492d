#include "server/ctl/client/testing/fake_coordinator.h"

#include <arpa/inet.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_status.h"
#include "common/status/check.h"
#include "common/sync/mutex.h"
#include "ringmaster/v1/job_service.grpc.pb.h"
#include "ringmaster/v1/pool_service.grpc.pb.h"
#include "ringmaster/v1/status_service.grpc.pb.h"

namespace ringmaster::ctl {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);

bool IsEnd(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED ||
         state == v1::JOB_STATE_CANCELLED;
}

}  // namespace

class FakeCoordinator::Services final : public v1::JobService::Service,
                                        public v1::PoolService::Service,
                                        public v1::StatusService::Service {
 public:
  explicit Services(int port) {
    grpc::ServerBuilder builder;
    ConfigureServer(builder);
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", port),
                             grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(static_cast<v1::JobService::Service*>(this));
    builder.RegisterService(static_cast<v1::PoolService::Service*>(this));
    builder.RegisterService(static_cast<v1::StatusService::Service*>(this));
    server_ = builder.BuildAndStart();
    RM_CHECK(server_ != nullptr, "the fake coordinator listens");
  }

  ~Services() override {
    {
      MutexLock lock(mutex);
      is_stopping = true;
      changed.NotifyAll();
    }
    server_->Shutdown(std::chrono::system_clock::now());
  }

  grpc::Status SubmitJob(grpc::ServerContext*,
                         const v1::SubmitJobRequest* request,
                         v1::SubmitJobResponse* response) override {
    MutexLock lock(mutex);
    submitted = *request;
    *response->mutable_job() = job;
    return ToGrpcStatus(failure);
  }

  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*,
                      v1::GetJobResponse* response) override {
    MutexLock lock(mutex);
    was_queried = true;
    changed.NotifyAll();
    *response->mutable_job() = job;
    if (failure.ok() && job.id().empty())
      return ToGrpcStatus(absl::NotFoundError("no such job"));
    return ToGrpcStatus(failure);
  }

  grpc::Status CancelJob(grpc::ServerContext*,
                         const v1::CancelJobRequest* request,
                         v1::CancelJobResponse* response) override {
    MutexLock lock(mutex);
    cancelled = *request;
    is_cancelled = true;
    changed.NotifyAll();
    *response->mutable_job() = job;
    return ToGrpcStatus(failure);
  }

  grpc::Status ChangeJob(grpc::ServerContext*,
                         const v1::ChangeJobRequest* request,
                         v1::ChangeJobResponse* response) override {
    MutexLock lock(mutex);
    if (request->has_priority()) job.set_priority(request->priority());
    if (request->has_suspended()) job.set_suspended(request->suspended());
    v1::WorkerRange& workers = *job.mutable_spec()->mutable_workers();
    if (request->has_min_workers()) workers.set_min(request->min_workers());
    if (request->has_max_workers()) workers.set_max(request->max_workers());
    if (request->has_queue()) job.set_queue(request->queue());
    *response->mutable_job() = job;
    return ToGrpcStatus(failure);
  }

  grpc::Status ListEvents(grpc::ServerContext*,
                          const v1::ListEventsRequest* request,
                          v1::ListEventsResponse* response) override {
    MutexLock lock(mutex);
    for (const v1::Event& event : events) {
      const bool is_wanted =
          request->job().empty() || event.job_id() == request->job();
      if (is_wanted && event.sequence() > request->after_sequence())
        *response->add_events() = event;
    }
    response->set_coordinator_incarnation(status.coordinator().incarnation());
    return ToGrpcStatus(failure);
  }

  // Those of the status, one a page.
  grpc::Status ListJobs(grpc::ServerContext*,
                        const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    MutexLock lock(mutex);
    int at = 0;
    (void)absl::SimpleAtoi(request->page_token(), &at);
    if (at < status.jobs_size()) *response->add_jobs() = status.jobs(at);
    if (at + 1 < status.jobs_size())
      response->set_next_page_token(absl::StrCat(at + 1));
    return ToGrpcStatus(failure);
  }

  grpc::Status GetTrace(grpc::ServerContext*, const v1::GetTraceRequest*,
                        v1::GetTraceResponse* response) override {
    MutexLock lock(mutex);
    *response = trace;
    return ToGrpcStatus(failure);
  }

  grpc::Status GetFlightRecord(grpc::ServerContext*,
                               const v1::GetFlightRecordRequest* request,
                               v1::GetFlightRecordResponse* response) override {
    MutexLock lock(mutex);
    if (failure.ok() && request->incident() != flight.incident())
      return ToGrpcStatus(absl::NotFoundError("no such flight record"));
    *response->mutable_record() = flight;
    return ToGrpcStatus(failure);
  }

  grpc::Status ExplainJob(grpc::ServerContext*, const v1::ExplainJobRequest*,
                          v1::ExplainJobResponse* response) override {
    MutexLock lock(mutex);
    was_explained = true;
    changed.NotifyAll();
    *response = explanation;
    if (explanation.state() == v1::JOB_STATE_UNSPECIFIED)
      response->set_state(job.state());
    return ToGrpcStatus(failure);
  }

  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::GetStatusResponse* response) override {
    MutexLock lock(mutex);
    *response->mutable_status() = status;
    if (next_status.has_value()) status = *std::exchange(next_status, {});
    return ToGrpcStatus(failure);
  }

  grpc::Status GetLogs(grpc::ServerContext*, const v1::GetLogsRequest* request,
                       v1::GetLogsResponse* response) override {
    MutexLock lock(mutex);
    logs_request = *request;
    changed.NotifyAll();
    for (const v1::ProcessLog& log : logs.logs()) {
      if ((log.name() == "coordinator") != request->coordinator()) continue;
      *response->add_logs() = log;
      Pick(*request, *response->mutable_logs()->rbegin());
    }
    if (!request->coordinator()) *response->mutable_missing() = logs.missing();
    if (failure.ok() && response->logs().empty() && response->missing().empty())
      return ToGrpcStatus(absl::NotFoundError("nobody of that name"));
    return ToGrpcStatus(failure);
  }

  grpc::Status ListAudit(grpc::ServerContext*,
                         const v1::ListAuditRequest* request,
                         v1::ListAuditResponse* response) override {
    MutexLock lock(mutex);
    int at = 0;
    (void)absl::SimpleAtoi(request->page_token(), &at);
    for (int i = at; i < at + 2 && i < audit.entries_size(); ++i)
      *response->add_entries() = audit.entries(i);
    if (at + 2 < audit.entries_size())
      response->set_next_page_token(absl::StrCat(at + 2));
    return ToGrpcStatus(failure);
  }

  grpc::Status Cordon(grpc::ServerContext*, const v1::CordonRequest* request,
                      v1::CordonResponse*) override {
    MutexLock lock(mutex);
    v1::Cordon& cordon = *status.add_cordons();
    cordon.set_target(request->target());
    cordon.set_drain(request->drain());
    cordon.set_reason(request->reason());
    if (request->has_within()) {
      *cordon.mutable_due_time() =
          ToProto(absl::Now() + FromProto(request->within()));
    }
    for (v1::Worker& worker : *status.mutable_workers()) {
      if (worker.name() == request->target() ||
          worker.host() == request->target())
        *worker.mutable_cordon() = cordon;
    }
    return ToGrpcStatus(failure);
  }

  grpc::Status SetQueues(grpc::ServerContext*,
                         const v1::SetQueuesRequest* request,
                         v1::SetQueuesResponse*) override {
    MutexLock lock(mutex);
    status.clear_queues();
    for (const v1::QueueSpec& spec : request->file().queues()) {
      *status.add_queues()->mutable_spec() = spec;
    }
    return ToGrpcStatus(failure);
  }

  grpc::Status Uncordon(grpc::ServerContext*,
                        const v1::UncordonRequest* request,
                        v1::UncordonResponse*) override {
    MutexLock lock(mutex);
    for (v1::Worker& worker : *status.mutable_workers()) {
      if (worker.cordon().target() == request->target()) worker.clear_cordon();
    }
    status.clear_cordons();
    return ToGrpcStatus(failure);
  }

  static void Pick(const v1::GetLogsRequest& request, v1::ProcessLog& log) {
    auto& lines = *log.mutable_page()->mutable_lines();
    for (const v1::LogCursor& cursor : request.cursors()) {
      if (cursor.incarnation() != log.incarnation()) continue;
      while (!lines.empty() && lines[0].sequence() <= cursor.sequence())
        lines.DeleteSubrange(0, 1);
    }
    const int64_t tail = request.filter().tail();
    if (tail > 0 && lines.size() > tail)
      lines.DeleteSubrange(0, static_cast<int>(lines.size() - tail));
  }

  grpc::Status WatchJob(
      grpc::ServerContext* context, const v1::WatchJobRequest*,
      grpc::ServerWriter<v1::WatchJobResponse>* writer) override {
    int64_t seen = -1;
    while (true) {
      v1::WatchJobResponse response;
      {
        MutexLock lock(mutex);
        if (seen < 0) ++watchers;
        changed.NotifyAll();
        while (revision == seen && !is_stopping && !context->IsCancelled()) {
          changed.WaitUntil(mutex, Clock::Real(),
                            Clock::Real().Now() + absl::Milliseconds(20));
        }
        if (!failure.ok()) return ToGrpcStatus(failure);
        if (is_stopping)
          return grpc::Status(grpc::StatusCode::UNAVAILABLE, "shutting down");
        if (context->IsCancelled()) return grpc::Status::CANCELLED;
        seen = revision;
        *response.mutable_job() = job;
        response.set_revision(revision);
      }
      writer->Write(response);
      if (IsEnd(response.job().state())) return grpc::Status::OK;
    }
  }

  int port() const { return port_; }

  mutable Mutex mutex;
  CondVar changed;

  void AwaitChange(MonotonicTime deadline) REQUIRES(mutex) {
    RM_CHECK(changed.WaitUntil(mutex, Clock::Real(), deadline),
             "the client did not ask in time");
  }
  bool is_stopping GUARDED_BY(mutex) = false;
  bool is_cancelled GUARDED_BY(mutex) = false;
  bool was_queried GUARDED_BY(mutex) = false;
  bool was_explained GUARDED_BY(mutex) = false;
  int watchers GUARDED_BY(mutex) = 0;
  int64_t revision GUARDED_BY(mutex) = 0;
  absl::Status failure GUARDED_BY(mutex);
  v1::Job job GUARDED_BY(mutex);
  v1::Status status GUARDED_BY(mutex);
  std::optional<v1::Status> next_status GUARDED_BY(mutex);
  std::vector<v1::Event> events GUARDED_BY(mutex);
  v1::GetTraceResponse trace GUARDED_BY(mutex);
  v1::FlightRecord flight GUARDED_BY(mutex);
  v1::GetLogsResponse logs GUARDED_BY(mutex);
  v1::GetLogsRequest logs_request GUARDED_BY(mutex);
  v1::ListAuditResponse audit GUARDED_BY(mutex);
  v1::ExplainJobResponse explanation GUARDED_BY(mutex);
  v1::SubmitJobRequest submitted GUARDED_BY(mutex);
  v1::CancelJobRequest cancelled GUARDED_BY(mutex);

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

FakeCoordinator::FakeCoordinator(int port)
    : services_(std::make_unique<Services>(port)) {}
FakeCoordinator::~FakeCoordinator() = default;

int FakeCoordinator::port() const { return services_->port(); }
std::string FakeCoordinator::address() const {
  return absl::StrCat("127.0.0.1:", port());
}

void FakeCoordinator::SetJob(const v1::Job& job) {
  MutexLock lock(services_->mutex);
  services_->job = job;
  ++services_->revision;
  services_->changed.NotifyAll();
}

void FakeCoordinator::SetStatus(const v1::Status& status) {
  MutexLock lock(services_->mutex);
  services_->status = status;
}

void FakeCoordinator::SetNextStatus(const v1::Status& status) {
  MutexLock lock(services_->mutex);
  services_->next_status = status;
}

void FakeCoordinator::SetEvents(const std::vector<v1::Event>& events) {
  MutexLock lock(services_->mutex);
  services_->events = events;
}

void FakeCoordinator::SetTrace(const v1::GetTraceResponse& trace) {
  MutexLock lock(services_->mutex);
  services_->trace = trace;
}

void FakeCoordinator::SetFlight(const v1::FlightRecord& record) {
  MutexLock lock(services_->mutex);
  services_->flight = record;
}

void FakeCoordinator::SetLogs(const v1::GetLogsResponse& logs) {
  MutexLock lock(services_->mutex);
  services_->logs = logs;
}

void FakeCoordinator::SetAudit(const v1::ListAuditResponse& audit) {
  MutexLock lock(services_->mutex);
  services_->audit = audit;
}

void FakeCoordinator::SetExplanation(
    const v1::ExplainJobResponse& explanation) {
  MutexLock lock(services_->mutex);
  services_->explanation = explanation;
}

void FakeCoordinator::FailWith(const absl::Status& status) {
  MutexLock lock(services_->mutex);
  services_->failure = status;
  ++services_->revision;
  services_->changed.NotifyAll();
}

void FakeCoordinator::AwaitWatcher() {
  MutexLock lock(services_->mutex);
  const MonotonicTime deadline = Clock::Real().Now() + kPatience;
  while (services_->watchers == 0) services_->AwaitChange(deadline);
}

void FakeCoordinator::AwaitCancel() {
  MutexLock lock(services_->mutex);
  const MonotonicTime deadline = Clock::Real().Now() + kPatience;
  while (!services_->is_cancelled) services_->AwaitChange(deadline);
}

void FakeCoordinator::AwaitLogsQuery() {
  MutexLock lock(services_->mutex);
  const MonotonicTime deadline = Clock::Real().Now() + kPatience;
  while (services_->logs_request.source_case() ==
         v1::GetLogsRequest::SOURCE_NOT_SET)
    services_->AwaitChange(deadline);
}

void FakeCoordinator::AwaitJobQuery() {
  MutexLock lock(services_->mutex);
  const MonotonicTime deadline = Clock::Real().Now() + kPatience;
  while (!services_->was_queried) services_->AwaitChange(deadline);
}

void FakeCoordinator::AwaitExplanationQuery() {
  MutexLock lock(services_->mutex);
  const MonotonicTime deadline = Clock::Real().Now() + kPatience;
  while (!services_->was_explained) services_->AwaitChange(deadline);
}

v1::SubmitJobRequest FakeCoordinator::submitted() const {
  MutexLock lock(services_->mutex);
  return services_->submitted;
}

v1::CancelJobRequest FakeCoordinator::cancelled() const {
  MutexLock lock(services_->mutex);
  return services_->cancelled;
}

v1::GetLogsRequest FakeCoordinator::logs_request() const {
  MutexLock lock(services_->mutex);
  return services_->logs_request;
}

class PlainServer::Impl {
 public:
  explicit Impl(std::string answer)
      : answer_(std::move(answer)),
        listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in bound{};
    bound.sin_family = AF_INET;
    bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(bound);
    RM_CHECK(
        ::bind(listener_, reinterpret_cast<sockaddr*>(&bound), size) == 0 &&
            ::listen(listener_, 16) == 0 &&
            ::getsockname(listener_, reinterpret_cast<sockaddr*>(&bound),
                          &size) == 0,
        "the plain server listens");
    port_ = ntohs(bound.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }

  ~Impl() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }

  int port() const { return port_; }

 private:
  void Serve() {
    std::vector<int> connections;
    while (true) {
      const int connection = ::accept(listener_, nullptr, nullptr);
      if (connection < 0) break;
      connections.push_back(connection);
      if (!answer_.empty()) {
        (void)!::send(connection, answer_.data(), answer_.size(), MSG_NOSIGNAL);
        ::shutdown(connection, SHUT_WR);
      }
    }
    for (const int connection : connections) ::close(connection);
  }

  const std::string answer_;
  const int listener_;
  int port_ = 0;
  std::thread thread_;
};

PlainServer::PlainServer(std::string answer)
    : impl_(std::make_unique<Impl>(std::move(answer))) {}
PlainServer::~PlainServer() = default;
std::string PlainServer::address() const {
  return absl::StrCat("127.0.0.1:", impl_->port());
}

}  // namespace ringmaster::ctl
