#include "server/coordinator/rpc/services.h"

#include <grpcpp/support/status.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/access/admission.h"
#include "common/fail_point/fail_point.h"
#include "common/protocol/proto_time.h"
#include "common/rpc/grpc_status.h"
#include "common/status/reason.h"
#include "common/text/utf8.h"
#include "server/coordinator/queues/queue_file.h"
#include "server/coordinator/rpc/caller.h"
#include "server/coordinator/rpc/log_gathering.h"
#include "server/coordinator/rpc/queries.h"
#include "server/coordinator/rpc/session_message.h"
#include "server/coordinator/rpc/session_reactor.h"
#include "server/coordinator/rpc/state_proto.h"
#include "server/coordinator/rpc/watch_reactor.h"

namespace ringmaster::coordinator {
namespace {

constexpr char kWatchJob[] = "/ringmaster.v1.JobService/WatchJob";
constexpr char kSubmitJob[] = "/ringmaster.v1.JobService/SubmitJob";
constexpr char kChangeJob[] = "/ringmaster.v1.JobService/ChangeJob";
constexpr char kCancelJob[] = "/ringmaster.v1.JobService/CancelJob";
constexpr char kWatchStatus[] = "/ringmaster.v1.StatusService/WatchStatus";

// Ends the call if the runtime refused it with an error; otherwise the callback
// ends it.
void FinishIfRefused(grpc::ServerUnaryReactor* reactor,
                     const absl::Status& posted) {
  if (!posted.ok()) reactor->Finish(ToGrpcStatus(posted));
}

// Ends the call if `status` is an error.
bool HasFailed(grpc::ServerUnaryReactor* reactor, const absl::Status& status) {
  if (status.ok()) return false;
  reactor->Finish(ToGrpcStatus(status));
  return true;
}

template <typename Response>
void FinishWith(grpc::ServerUnaryReactor* reactor,
                absl::StatusOr<Response> result, Response* response) {
  if (result.ok()) *response = *std::move(result);
  reactor->Finish(ToGrpcStatus(result.status()));
}

// Answers with `query`'s result, which is made on the runtime's thread. The
// request lives until the call ends.
template <typename Response, typename QueryFunction>
grpc::ServerUnaryReactor* Answer(CoordinatorRuntime& runtime,
                                 grpc::CallbackServerContext* context,
                                 Response* response, QueryFunction query) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  FinishIfRefused(reactor,
                  runtime.Ask([reactor, response, query = std::move(query)](
                                  const CoordinatorView& view) {
                    FinishWith(reactor, query(view), response);
                  }));
  return reactor;
}

// Answers a command with the job that it is about.
template <typename Response>
CoordinatorRuntime::UserReply JobReply(grpc::ServerUnaryReactor* reactor,
                                       Response* response) {
  return [reactor, response](const absl::Status& status,
                             const CoordinatorView& view, const Job* job) {
    if (status.ok() && job != nullptr) {
      *response->mutable_job() = JobProto(view.state, *job);
    }
    reactor->Finish(ToGrpcStatus(status));
  };
}

// The method is the caller's, what is asked for is not: that is counted, too.
CoordinatorRuntime::UserReply Counted(RefusalLog& refusals, const char* method,
                                      CoordinatorRuntime::UserReply reply) {
  return [&refusals, method, reply = std::move(reply)](
             const absl::Status& status, const CoordinatorView& view,
             const Job* job) mutable {
    if (absl::IsPermissionDenied(status)) refusals.Add(method, status);
    reply(status, view, job);
  };
}

// Answers a command that is about no job.
CoordinatorRuntime::UserReply EmptyReply(grpc::ServerUnaryReactor* reactor) {
  return [reactor](const absl::Status& status, const CoordinatorView&,
                   const Job*) { reactor->Finish(ToGrpcStatus(status)); };
}

// A watch that ends with the rights of its caller.
template <typename Message>
std::shared_ptr<WatchReactor<Message>> StartWatch(
    const char* method, grpc::CallbackServerContext& context,
    OpenCalls& open_calls) {
  const auto reactor = WatchReactor<Message>::Make(&context);
  const std::weak_ptr<WatchReactor<Message>> weak = reactor;
  reactor->Hold(open_calls.Add({.method = method,
                                .address = AddressOf(context),
                                .credentials = CredentialsOf(context),
                                .end =
                                    [weak](const absl::Status& status) {
                                      if (const auto open = weak.lock())
                                        open->End(status);
                                    },
                                .cut =
                                    [weak] {
                                      if (const auto open = weak.lock())
                                        open->Cut();
                                    },
                                .check = {}}));
  return reactor;
}

}  // namespace

// ---- CoordinatorService.

grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse>*
CoordinatorServiceImpl::Session(grpc::CallbackServerContext* context) {
  return SessionReactor::Start(context, runtime_, acceptor_,
                               IdentityOf(*context, access_), open_calls_);
}

grpc::ServerUnaryReactor* CoordinatorServiceImpl::ListMembers(
    grpc::CallbackServerContext* context, const v1::ListMembersRequest* request,
    v1::ListMembersResponse* response) {
  return Answer(runtime_, context, response,
                [request](const CoordinatorView& view) {
                  return coordinator::ListMembers(view.state, *request);
                });
}

// ---- JobService.

grpc::ServerUnaryReactor* JobServiceImpl::SubmitJob(
    grpc::CallbackServerContext* context, const v1::SubmitJobRequest* request,
    v1::SubmitJobResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (HasFailed(reactor, FAIL_POINT("coordinator.call.submit"))) return reactor;
  absl::StatusOr<SubmitRequested> submit = ParseSubmit(*request);
  if (!submit.ok()) {
    reactor->Finish(ToGrpcStatus(submit.status()));
  } else if (request->validate_only()) {
    response->mutable_job()->mutable_spec()->ParseFromString(submit->spec);
    reactor->Finish(grpc::Status::OK);
  } else {
    submit->caller = CallerOf(*context, access_);
    submit->owner = submit->caller.name;
    FinishIfRefused(reactor,
                    runtime_.Submit(*std::move(submit),
                                    Counted(refusals_, kSubmitJob,
                                            JobReply(reactor, response))));
  }
  return reactor;
}

grpc::ServerUnaryReactor* JobServiceImpl::GetJob(
    grpc::CallbackServerContext* context, const v1::GetJobRequest* request,
    v1::GetJobResponse* response) {
  return Answer(runtime_, context, response,
                [request](const CoordinatorView& view) {
                  return coordinator::GetJob(view.state, *request);
                });
}

grpc::ServerUnaryReactor* JobServiceImpl::ListJobs(
    grpc::CallbackServerContext* context, const v1::ListJobsRequest* request,
    v1::ListJobsResponse* response) {
  return Answer(runtime_, context, response,
                [request](const CoordinatorView& view) {
                  return coordinator::ListJobs(view.state, *request);
                });
}

grpc::ServerWriteReactor<v1::WatchJobResponse>* JobServiceImpl::WatchJob(
    grpc::CallbackServerContext* context, const v1::WatchJobRequest* request) {
  const auto reactor =
      StartWatch<v1::WatchJobResponse>(kWatchJob, *context, open_calls_);
  runtime_.WatchJob(request->job(), reactor);
  return reactor.get();
}

grpc::ServerUnaryReactor* JobServiceImpl::CancelJob(
    grpc::CallbackServerContext* context, const v1::CancelJobRequest* request,
    v1::CancelJobResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (HasFailed(reactor, FAIL_POINT("coordinator.call.cancel"))) return reactor;
  CancelRequested cancel = ParseCancel(*request);
  cancel.caller = CallerOf(*context, access_);
  FinishIfRefused(
      reactor,
      runtime_.Cancel(std::move(cancel), Counted(refusals_, kCancelJob,
                                                 JobReply(reactor, response))));
  return reactor;
}

grpc::ServerUnaryReactor* JobServiceImpl::ChangeJob(
    grpc::CallbackServerContext* context, const v1::ChangeJobRequest* request,
    v1::ChangeJobResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::StatusOr<ChangeRequested> change = ParseChange(*request);
  if (HasFailed(reactor, change.status())) return reactor;
  change->caller = CallerOf(*context, access_);
  FinishIfRefused(reactor,
                  runtime_.Change(*std::move(change),
                                  Counted(refusals_, kChangeJob,
                                          JobReply(reactor, response))));
  return reactor;
}

grpc::ServerUnaryReactor* JobServiceImpl::ListEvents(
    grpc::CallbackServerContext* context, const v1::ListEventsRequest* request,
    v1::ListEventsResponse* response) {
  return Answer(runtime_, context, response,
                [request](const CoordinatorView& view) {
                  return coordinator::ListEvents(view.state, view.events,
                                                 view.self, *request);
                });
}

grpc::ServerUnaryReactor* JobServiceImpl::GetTrace(
    grpc::CallbackServerContext* context, const v1::GetTraceRequest* request,
    v1::GetTraceResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (HasFailed(reactor, FAIL_POINT("coordinator.call.trace"))) return reactor;
  if (HasFailed(reactor, CheckTrace(*request))) return reactor;
  FinishIfRefused(
      reactor, runtime_.GatherTrace(
                   request->job(), request->first_step(), request->last_step(),
                   [reactor, response](auto result) {
                     FinishWith(reactor, std::move(result), response);
                   }));
  return reactor;
}

grpc::ServerUnaryReactor* JobServiceImpl::GetFlightRecord(
    grpc::CallbackServerContext* context,
    const v1::GetFlightRecordRequest* request,
    v1::GetFlightRecordResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (HasFailed(reactor, FAIL_POINT("coordinator.call.flight"))) return reactor;
  if (HasFailed(reactor, CheckFlight(*request))) return reactor;
  FinishIfRefused(reactor,
                  runtime_.GetFlight(request->job(), request->incident(),
                                     [reactor, response](auto result) {
                                       FinishWith(reactor, std::move(result),
                                                  response->mutable_record());
                                     }));
  return reactor;
}

grpc::ServerUnaryReactor* JobServiceImpl::ExplainJob(
    grpc::CallbackServerContext* context, const v1::ExplainJobRequest* request,
    v1::ExplainJobResponse* response) {
  return Answer(
      runtime_, context, response, [request](const CoordinatorView& view) {
        return coordinator::ExplainJob(view.state, view.config, view.now,
                                       view.journal_wait, *request);
      });
}

// ---- PoolService.

grpc::ServerUnaryReactor* PoolServiceImpl::Cordon(
    grpc::CallbackServerContext* context, const v1::CordonRequest* request,
    v1::CordonResponse*) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::StatusOr<CordonRequested> cordon = ParseCordon(*request);
  if (HasFailed(reactor, cordon.status())) return reactor;
  cordon->caller = CallerOf(*context, access_);
  FinishIfRefused(reactor,
                  runtime_.Cordon(*std::move(cordon), EmptyReply(reactor)));
  return reactor;
}

grpc::ServerUnaryReactor* PoolServiceImpl::Uncordon(
    grpc::CallbackServerContext* context, const v1::UncordonRequest* request,
    v1::UncordonResponse*) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  CordonRequested uncordon = ParseUncordon(*request);
  uncordon.caller = CallerOf(*context, access_);
  FinishIfRefused(reactor,
                  runtime_.Cordon(std::move(uncordon), EmptyReply(reactor)));
  return reactor;
}

grpc::ServerUnaryReactor* PoolServiceImpl::SetQueues(
    grpc::CallbackServerContext* context, const v1::SetQueuesRequest* request,
    v1::SetQueuesResponse*) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::Status status = CheckQueues(request->file());
  if (status.ok()) {
    status = runtime_.SetQueues(
        {.file = request->file(), .caller = CallerOf(*context, access_)},
        EmptyReply(reactor));
  } else {
    status = WithReason(std::move(status), reason::kInvalidRequest);
  }
  FinishIfRefused(reactor, status);
  return reactor;
}

// ---- StatusService.

grpc::ServerUnaryReactor* StatusServiceImpl::GetStatus(
    grpc::CallbackServerContext* context, const v1::GetStatusRequest* request,
    v1::GetStatusResponse* response) {
  return Answer(runtime_, context, response,
                [request](const CoordinatorView& view) {
                  return coordinator::GetStatus(view.Status(), *request);
                });
}

grpc::ServerWriteReactor<v1::WatchStatusResponse>*
StatusServiceImpl::WatchStatus(grpc::CallbackServerContext* context,
                               const v1::WatchStatusRequest* request) {
  const auto reactor =
      StartWatch<v1::WatchStatusResponse>(kWatchStatus, *context, open_calls_);
  runtime_.WatchStatus(reactor, *request);
  return reactor.get();
}

grpc::ServerUnaryReactor* StatusServiceImpl::GetLogs(
    grpc::CallbackServerContext* context, const v1::GetLogsRequest* request,
    v1::GetLogsResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (HasFailed(reactor, FAIL_POINT("coordinator.call.logs"))) return reactor;
  if (HasFailed(reactor, CheckLogs(*request))) return reactor;
  if (request->source_case() == v1::GetLogsRequest::kCoordinator) {
    *response = OwnLogs(*request, runtime_.identity().incarnation);
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  FinishIfRefused(
      reactor, runtime_.GatherLogs(*request, [reactor, response](auto result) {
        FinishWith(reactor, std::move(result), response);
      }));
  return reactor;
}

grpc::ServerUnaryReactor* StatusServiceImpl::ListAudit(
    grpc::CallbackServerContext* context, const v1::ListAuditRequest* request,
    v1::ListAuditResponse* response) {
  return Answer(runtime_, context, response,
                [request](const CoordinatorView& view) {
                  return coordinator::ListAudit(view.state, *request);
                });
}

}  // namespace ringmaster::coordinator
