#include "server/coordinator/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "server/coordinator/rpc/runtime.h"
#include "server/coordinator/rpc/services.h"

namespace ringmaster::coordinator {
namespace {

// gRPC logs why it cannot listen, but does not say. Tries it once more, to
// learn the reason.
std::string WhyNotListening(const HostPort& address) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(
      address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (error != 0) return gai_strerror(error);
  std::string why = "unknown error";
  for (const addrinfo* item = found; item != nullptr; item = item->ai_next) {
    const int fd = socket(item->ai_family, item->ai_socktype | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    // As gRPC does; a port in TIME_WAIT is no obstacle.
    const int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, item->ai_addr, item->ai_addrlen) != 0 || listen(fd, 1) != 0) {
      why = std::strerror(errno);
    }
    close(fd);
  }
  freeaddrinfo(found);
  return why;
}

}  // namespace

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
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", address.ToString(), ": ",
                     WhyNotListening(address)));
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
