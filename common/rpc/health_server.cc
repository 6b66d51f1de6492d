#include "common/rpc/health_server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>

#include "common/rpc/channel.h"
#include "common/rpc/listen_error.h"

namespace ringmaster {

struct HealthServer::Impl {
  // gRPC's health service has no thread of its own; a server without any other
  // service would not start. All methods of this one are UNIMPLEMENTED.
  grpc::CallbackGenericService nothing;
  HostPort address;
  std::unique_ptr<grpc::Server> server;
};

HealthServer::HealthServer(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}

HealthServer::~HealthServer() {
  // Watches would hold it up.
  impl_->server->Shutdown(std::chrono::system_clock::now());
}

absl::StatusOr<std::unique_ptr<HealthServer>> HealthServer::Start(
    const HostPort& address) {
  grpc::EnableDefaultHealthCheckService(true);
  auto impl = std::make_unique<Impl>();
  impl->address = address;
  grpc::ServerBuilder builder;
  ConfigureServer(builder);
  builder.AddListeningPort(address.ToString(),
                           grpc::InsecureServerCredentials(),
                           &impl->address.port);
  builder.RegisterCallbackGenericService(&impl->nothing);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || impl->address.port == 0)
    return CannotListen(address);
  std::unique_ptr<HealthServer> health(new HealthServer(std::move(impl)));
  health->SetReady(false);
  return health;
}

void HealthServer::SetReady(bool is_ready) {
  impl_->server->GetHealthCheckService()->SetServingStatus(kReadyService,
                                                           is_ready);
}

const HostPort& HealthServer::address() const { return impl_->address; }

}  // namespace ringmaster
