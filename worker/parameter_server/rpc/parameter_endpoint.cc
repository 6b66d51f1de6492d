#include "worker/parameter_server/rpc/parameter_endpoint.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "common/access/admission.h"
#include "common/access/refusal_log.h"
#include "common/rpc/acceptor.h"
#include "common/rpc/channel.h"
#include "common/status/status_macros.h"
#include "worker/parameter_server/rpc/parameter_service.h"

namespace ringmaster {

namespace {

constexpr RoleSet kReaders = {Role::kSubmitter, Role::kOperator, Role::kWorker,
                              Role::kServer};
constexpr RoleSet kPushers = {Role::kOperator, Role::kWorker};
constexpr RoleSet kAll = {Role::kViewer, Role::kSubmitter, Role::kOperator,
                          Role::kWorker, Role::kServer};

constexpr MethodRoles kMethods[] = {
    {"/ringmaster.v1.ParameterService/GetShards", kReaders},
    {"/ringmaster.v1.ParameterService/Pull", kReaders},
    {"/ringmaster.v1.ParameterService/Push", kPushers},
    {"/grpc.health.v1.Health/Check", kAll},
    {"/grpc.health.v1.Health/Watch", kAll},
};

}  // namespace

std::span<const MethodRoles> ParameterMethods() { return kMethods; }

struct ParameterEndpoint::Impl {
  Impl(ParameterStore& store, Clock& clock) : service(store, clock) {}

  std::unique_ptr<Acceptor> acceptor;
  ParameterServiceImpl service;
  std::unique_ptr<grpc::Server> server;
};

ParameterEndpoint::ParameterEndpoint(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<ParameterEndpoint>> ParameterEndpoint::Start(
    ParameterStore& store, Clock& clock, const HostPort& address,
    std::shared_ptr<grpc::ServerCredentials> credentials,
    std::shared_ptr<const AccessControl> access) {
  // Works on servers that are built later.
  grpc::EnableDefaultHealthCheckService(true);
  auto impl = std::make_unique<Impl>(store, clock);
  ASSIGN_OR_RETURN(impl->acceptor, Acceptor::Listen(address));
  if (access != nullptr) {
    credentials->SetAuthMetadataProcessor(
        MakeAdmission(std::move(access), std::make_shared<RefusalLog>()));
  }
  grpc::ServerBuilder builder;
  ConfigureServer(builder);
  impl->acceptor->AddTo(builder, std::move(credentials));
  builder.RegisterService(&impl->service);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr)
    return absl::InternalError("gRPC did not start a server");
  impl->server->GetHealthCheckService()->SetServingStatus(
      v1::ParameterService::service_full_name(), true);
  impl->acceptor->Start();
  return std::unique_ptr<ParameterEndpoint>(
      new ParameterEndpoint(std::move(impl)));
}

ParameterEndpoint::~ParameterEndpoint() {
  impl_->acceptor->Stop();
  impl_->server->Shutdown(std::chrono::system_clock::now());
}

const HostPort& ParameterEndpoint::address() const {
  return impl_->acceptor->address();
}

}  // namespace ringmaster
