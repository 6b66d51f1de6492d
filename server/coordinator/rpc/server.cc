#include "server/coordinator/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "common/access/access_control.h"
#include "common/access/admission.h"
#include "common/access/refusal_log.h"
#include "common/rpc/acceptor.h"
#include "common/rpc/channel.h"
#include "common/status/status_macros.h"
#include "server/coordinator/rpc/open_calls.h"
#include "server/coordinator/rpc/runtime.h"
#include "server/coordinator/rpc/services.h"

namespace ringmaster::coordinator {

struct CoordinatorServer::Impl {
  Impl(CoordinatorRuntime& runtime, std::unique_ptr<Acceptor> listening,
       std::shared_ptr<const AccessControl> control)
      : acceptor(std::move(listening)),
        access(std::move(control)),
        open_calls(access),
        coordinator_service(runtime, access.get(), *acceptor, open_calls),
        job_service(runtime, access.get(), *refusals, open_calls),
        pool_service(runtime, access.get()),
        status_service(runtime, open_calls) {}

  const std::unique_ptr<Acceptor> acceptor;
  const std::shared_ptr<const AccessControl> access;
  const std::shared_ptr<RefusalLog> refusals = std::make_shared<RefusalLog>();
  OpenCalls open_calls;
  CoordinatorServiceImpl coordinator_service;
  JobServiceImpl job_service;
  PoolServiceImpl pool_service;
  StatusServiceImpl status_service;
  std::unique_ptr<grpc::Server> server;
  std::atomic<bool> is_serving = false;
};

CoordinatorServer::CoordinatorServer(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<CoordinatorServer>> CoordinatorServer::Start(
    CoordinatorRuntime& runtime, const HostPort& address,
    std::shared_ptr<grpc::ServerCredentials> credentials,
    std::shared_ptr<const AccessControl> access) {
  // Both work on servers that are built later.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  ASSIGN_OR_RETURN(std::unique_ptr<Acceptor> acceptor,
                   Acceptor::Listen(address));
  auto impl = std::make_unique<Impl>(runtime, std::move(acceptor), access);
  if (access != nullptr) {
    credentials->SetAuthMetadataProcessor(
        MakeAdmission(std::move(access), impl->refusals));
  }
  grpc::ServerBuilder builder;
  ConfigureServer(builder);
  impl->acceptor->AddTo(builder, std::move(credentials));
  builder.RegisterService(&impl->coordinator_service);
  builder.RegisterService(&impl->job_service);
  builder.RegisterService(&impl->pool_service);
  builder.RegisterService(&impl->status_service);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr)
    return absl::InternalError("gRPC did not start a server");
  std::unique_ptr<CoordinatorServer> server(
      new CoordinatorServer(std::move(impl)));
  server->SetServing(true);
  server->impl_->acceptor->Start();
  return server;
}

CoordinatorServer::~CoordinatorServer() { Shutdown(absl::ZeroDuration()); }

const HostPort& CoordinatorServer::address() const {
  return impl_->acceptor->address();
}

void CoordinatorServer::AddMetrics(MetricPage& page) const {
  const ConnectionCounts counts = impl_->acceptor->counts();
  const auto add = [&page](const char* kind, int64_t count) {
    page.AddGauge("ringmaster_coordinator_connections",
                  "Open connections: of workers with a session, and others.",
                  static_cast<double>(count), {{"kind", kind}});
  };
  add("session", counts.members);
  add("other", counts.strangers);
  page.AddCounter("ringmaster_coordinator_connections_dropped_total",
                  "Connections that were closed to make room for others.",
                  static_cast<double>(counts.dropped));
}

void CoordinatorServer::SetServing(bool is_serving) {
  // gRPC sends the state to all who watch it, whether it is news or not.
  if (impl_->is_serving.exchange(is_serving) == is_serving) return;
  grpc::HealthCheckServiceInterface& health =
      *impl_->server->GetHealthCheckService();
  for (const char* service : {"", v1::CoordinatorService::service_full_name(),
                              v1::JobService::service_full_name(),
                              v1::StatusService::service_full_name()}) {
    health.SetServingStatus(service, is_serving);
  }
}

void CoordinatorServer::EndRefusedCalls() { impl_->open_calls.EndRefused(); }

void CoordinatorServer::AnnounceShutdown() {
  impl_->server->GetHealthCheckService()->Shutdown();
}

void CoordinatorServer::Shutdown(absl::Duration grace) {
  impl_->acceptor->Stop();
  impl_->server->Shutdown(absl::ToChronoTime(absl::Now() + grace));
}

}  // namespace ringmaster::coordinator
