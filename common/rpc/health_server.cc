#include "common/rpc/health_server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "common/rpc/acceptor.h"
#include "common/rpc/channel.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

// Connections at once.
constexpr int kMaxProbes = 16;

}  // namespace

struct HealthServer::Impl {
  // gRPC's health service has no thread of its own; a server without any other
  // service would not start. All methods of this one are UNIMPLEMENTED.
  grpc::CallbackGenericService nothing;
  std::unique_ptr<Acceptor> acceptor;
  std::unique_ptr<grpc::Server> server;
};

HealthServer::HealthServer(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}

HealthServer::~HealthServer() {
  impl_->acceptor->Stop();
  // Watches would hold it up.
  impl_->server->Shutdown(std::chrono::system_clock::now());
}

absl::StatusOr<std::unique_ptr<HealthServer>> HealthServer::Start(
    const HostPort& address) {
  grpc::EnableDefaultHealthCheckService(true);
  auto impl = std::make_unique<Impl>();
  ASSIGN_OR_RETURN(impl->acceptor, Acceptor::Listen(address, kMaxProbes));
  grpc::ServerBuilder builder;
  ConfigureServer(builder);
  impl->acceptor->AddTo(builder, grpc::InsecureServerCredentials());
  builder.RegisterCallbackGenericService(&impl->nothing);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr)
    return absl::InternalError("gRPC did not start a server");
  impl->acceptor->Start();
  std::unique_ptr<HealthServer> health(new HealthServer(std::move(impl)));
  health->Set(/*is_live=*/true, /*is_ready=*/false);
  return health;
}

void HealthServer::Set(bool is_live, bool is_ready) {
  grpc::HealthCheckServiceInterface& service =
      *impl_->server->GetHealthCheckService();
  service.SetServingStatus("", is_live);
  service.SetServingStatus(kReadyService, is_ready);
}

const HostPort& HealthServer::address() const {
  return impl_->acceptor->address();
}

}  // namespace ringmaster
