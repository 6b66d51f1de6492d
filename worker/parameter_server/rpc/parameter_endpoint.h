// ParameterEndpoint serves a process's shards to small clients over gRPC:
// ParameterService and health (grpc.health.v1). Not reflection: gRPC's handler of it
// holds a thread for as long as its client likes, and CallLimits does not reach it.
// Free of gRPC's headers.
//
// It does not know whose a job is. So those may change parameters who may change every
// job, or train them; and those may read them whose own jobs could (docs/security.md).
#ifndef RINGMASTER_WORKER_PARAMETER_SERVER_RPC_PARAMETER_ENDPOINT_H_
#define RINGMASTER_WORKER_PARAMETER_SERVER_RPC_PARAMETER_ENDPOINT_H_

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "common/access/access_control.h"
#include "common/clock/clock.h"
#include "common/config/address.h"
#include "worker/parameter_server/parameter_store.h"

namespace grpc {
class ServerCredentials;
}  // namespace grpc

namespace ringmaster {

// Every method that it serves, and the roles that may call it.
[[nodiscard]] std::span<const MethodRoles> ParameterMethods();

// Thread-compatible.
class ParameterEndpoint {
 public:
  // Listens on `address` (port 0: any free one) and serves `store`, which, like
  // the clock, must outlive it, to those whom `access` admits; null: to everybody.
  // Only TLS tells who calls: `access` goes with credentials for that.
  //   FAILED_PRECONDITION  cannot listen there
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ParameterEndpoint>> Start(
      ParameterStore& store, Clock& clock, const HostPort& address,
      std::shared_ptr<grpc::ServerCredentials> credentials,
      std::shared_ptr<const AccessControl> access = nullptr);
  // Cuts off what still runs.
  ~ParameterEndpoint();
  ParameterEndpoint(const ParameterEndpoint&) = delete;
  ParameterEndpoint& operator=(const ParameterEndpoint&) = delete;

  // The address where it listens, with the chosen port.
  [[nodiscard]] const HostPort& address() const;

 private:
  struct Impl;
  explicit ParameterEndpoint(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PARAMETER_SERVER_RPC_PARAMETER_ENDPOINT_H_
