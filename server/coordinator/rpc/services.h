// The four gRPC services. Handlers parse and check a request once, ask the
// runtime, and translate what comes back; they decide nothing.
//
// Thread-safe; methods are called by gRPC, for callers who were admitted. Each
// refers to a runtime, to an access control (null: nobody is asked), and to the calls
// that stay open, which must outlive the server.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_SERVICES_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_SERVICES_H_

#include <grpcpp/support/server_callback.h>

#include "common/access/access_control.h"
#include "common/access/refusal_log.h"
#include "common/rpc/acceptor.h"
#include "ringmaster/v1/coordinator_service.grpc.pb.h"
#include "ringmaster/v1/job_service.grpc.pb.h"
#include "ringmaster/v1/pool_service.grpc.pb.h"
#include "ringmaster/v1/status_service.grpc.pb.h"
#include "server/coordinator/rpc/open_calls.h"
#include "server/coordinator/rpc/runtime.h"

namespace ringmaster::coordinator {

class CoordinatorServiceImpl final
    : public v1::CoordinatorService::CallbackService {
 public:
  // `acceptor` is the server's, and learns whose connections have a session.
  CoordinatorServiceImpl(CoordinatorRuntime& runtime,
                         const AccessControl* access, Acceptor& acceptor,
                         OpenCalls& open_calls)
      : runtime_(runtime),
        access_(access),
        acceptor_(acceptor),
        open_calls_(open_calls) {}

  grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse>* Session(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* ListMembers(
      grpc::CallbackServerContext* context,
      const v1::ListMembersRequest* request,
      v1::ListMembersResponse* response) override;

 private:
  CoordinatorRuntime& runtime_;
  const AccessControl* const access_;
  Acceptor& acceptor_;
  OpenCalls& open_calls_;
};

class JobServiceImpl final : public v1::JobService::CallbackService {
 public:
  // `refusals` logs cancellations of others' jobs.
  JobServiceImpl(CoordinatorRuntime& runtime, const AccessControl* access,
                 RefusalLog& refusals, OpenCalls& open_calls)
      : runtime_(runtime),
        access_(access),
        refusals_(refusals),
        open_calls_(open_calls) {}

  grpc::ServerUnaryReactor* SubmitJob(grpc::CallbackServerContext* context,
                                      const v1::SubmitJobRequest* request,
                                      v1::SubmitJobResponse* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const v1::GetJobRequest* request,
                                   v1::GetJobResponse* response) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context,
                                     const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchJob(
      grpc::CallbackServerContext* context,
      const v1::WatchJobRequest* request) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* context,
                                      const v1::CancelJobRequest* request,
                                      v1::CancelJobResponse* response) override;
  grpc::ServerUnaryReactor* ChangeJob(grpc::CallbackServerContext* context,
                                      const v1::ChangeJobRequest* request,
                                      v1::ChangeJobResponse* response) override;
  grpc::ServerUnaryReactor* ListEvents(
      grpc::CallbackServerContext* context,
      const v1::ListEventsRequest* request,
      v1::ListEventsResponse* response) override;
  grpc::ServerUnaryReactor* GetFlightRecord(
      grpc::CallbackServerContext* context,
      const v1::GetFlightRecordRequest* request,
      v1::GetFlightRecordResponse* response) override;
  grpc::ServerUnaryReactor* GetTrace(grpc::CallbackServerContext* context,
                                     const v1::GetTraceRequest* request,
                                     v1::GetTraceResponse* response) override;
  grpc::ServerUnaryReactor* ExplainJob(
      grpc::CallbackServerContext* context,
      const v1::ExplainJobRequest* request,
      v1::ExplainJobResponse* response) override;

 private:
  CoordinatorRuntime& runtime_;
  const AccessControl* const access_;
  RefusalLog& refusals_;
  OpenCalls& open_calls_;
};

class PoolServiceImpl final : public v1::PoolService::CallbackService {
 public:
  PoolServiceImpl(CoordinatorRuntime& runtime, const AccessControl* access)
      : runtime_(runtime), access_(access) {}

  grpc::ServerUnaryReactor* Cordon(grpc::CallbackServerContext* context,
                                   const v1::CordonRequest* request,
                                   v1::CordonResponse* response) override;
  grpc::ServerUnaryReactor* Uncordon(grpc::CallbackServerContext* context,
                                     const v1::UncordonRequest* request,
                                     v1::UncordonResponse* response) override;
  grpc::ServerUnaryReactor* SetQueues(grpc::CallbackServerContext* context,
                                      const v1::SetQueuesRequest* request,
                                      v1::SetQueuesResponse* response) override;

 private:
  CoordinatorRuntime& runtime_;
  const AccessControl* const access_;
};

class StatusServiceImpl final : public v1::StatusService::CallbackService {
 public:
  StatusServiceImpl(CoordinatorRuntime& runtime, OpenCalls& open_calls)
      : runtime_(runtime), open_calls_(open_calls) {}

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchStatusResponse>* WatchStatus(
      grpc::CallbackServerContext* context,
      const v1::WatchStatusRequest* request) override;
  grpc::ServerUnaryReactor* GetLogs(grpc::CallbackServerContext* context,
                                    const v1::GetLogsRequest* request,
                                    v1::GetLogsResponse* response) override;
  grpc::ServerUnaryReactor* ListAudit(grpc::CallbackServerContext* context,
                                      const v1::ListAuditRequest* request,
                                      v1::ListAuditResponse* response) override;

 private:
  CoordinatorRuntime& runtime_;
  OpenCalls& open_calls_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_SERVICES_H_
