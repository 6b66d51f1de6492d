#include "server/coordinator/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <utility>

#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/listen_error.h"
#include "server/coordinator/rpc/runtime.h"
#include "server/coordinator/rpc/services.h"

namespace ringmaster::coordinator {

struct CoordinatorServer::Impl {
  explicit Impl(CoordinatorRuntime& runtime)
      : coordinator_service(runtime),
        job_service(runtime),
        status_service(runtime) {}

  CoordinatorServiceImpl coordinator_service;
  JobServiceImpl job_service;
  StatusServiceImpl status_service;
  HostPort address;
  std::unique_ptr<grpc::Server> server;
};

CoordinatorServer::CoordinatorServer(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<CoordinatorServer>> CoordinatorServer::Start(
    CoordinatorRuntime& runtime, const HostPort& address,
    std::shared_ptr<grpc::ServerCredentials> credentials) {
  // Both work on servers that are built later.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  auto impl = std::make_unique<Impl>(runtime);
  impl->address = address;
  grpc::ServerBuilder builder;
  ConfigureServer(builder);
  builder.AddListeningPort(address.ToString(), std::move(credentials),
                           &impl->address.port);
  builder.RegisterService(&impl->coordinator_service);
  builder.RegisterService(&impl->job_service);
  builder.RegisterService(&impl->status_service);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || impl->address.port == 0) {
    return CannotListen(address);
  }
  grpc::HealthCheckServiceInterface& health =
      *impl->server->GetHealthCheckService();
  for (const char* service : {v1::CoordinatorService::service_full_name(),
                              v1::JobService::service_full_name(),
                              v1::StatusService::service_full_name()}) {
    health.SetServingStatus(service, true);
  }
  return std::unique_ptr<CoordinatorServer>(
      new CoordinatorServer(std::move(impl)));
}

CoordinatorServer::~CoordinatorServer() { Shutdown(absl::ZeroDuration()); }

const HostPort& CoordinatorServer::address() const { return impl_->address; }

void CoordinatorServer::AnnounceShutdown() {
  impl_->server->GetHealthCheckService()->Shutdown();
}

void CoordinatorServer::Shutdown(absl::Duration grace) {
  impl_->server->Shutdown(absl::ToChronoTime(absl::Now() + grace));
}

}  // namespace ringmaster::coordinator
