// CoordinatorServer serves a runtime over gRPC: the three services, health
// (grpc.health.v1) and reflection.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_SERVER_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/address.h"
#include "common/metrics/metric_page.h"

namespace grpc {
class ServerCredentials;
}  // namespace grpc

namespace ringmaster {
class AccessControl;
}  // namespace ringmaster

namespace ringmaster::coordinator {

class CoordinatorRuntime;

// Thread-compatible. Free of gRPC's headers.
class CoordinatorServer {
 public:
  // Listens on `address` (port 0: any free one) and serves `runtime`, which
  // must outlive the server, to those whom `access` admits; null: to everybody.
  // Only TLS tells who calls: `access` goes with credentials for that.
  //   FAILED_PRECONDITION  cannot listen there: taken, not an address of this
  //   host, not permitted
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CoordinatorServer>> Start(
      CoordinatorRuntime& runtime, const HostPort& address,
      std::shared_ptr<grpc::ServerCredentials> credentials,
      std::shared_ptr<const AccessControl> access = nullptr);

  // Cuts off what still runs.
  ~CoordinatorServer();
  CoordinatorServer(const CoordinatorServer&) = delete;
  CoordinatorServer& operator=(const CoordinatorServer&) = delete;

  // Where it listens, with the chosen port.
  [[nodiscard]] const HostPort& address() const;

  // Adds the figures of its connections. Any thread.
  void AddMetrics(MetricPage& page) const;

  // The answer of health for every service.
  void SetServing(bool is_serving);

  // Ends sessions and watches whose callers `access` does not admit any more; to be
  // called when it has changed.
  void EndRefusedCalls();

  // From now on health reports NOT_SERVING for every service, while calls
  // continue as before, so that load balancers and probes turn away first.
  void AnnounceShutdown();

  // Refuses new calls and waits up to `grace` for those under way, then cuts
  // them off. To be called after the runtime's Shutdown, which ends the long
  // ones.
  void Shutdown(absl::Duration grace);

 private:
  struct Impl;
  explicit CoordinatorServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_SERVER_H_
