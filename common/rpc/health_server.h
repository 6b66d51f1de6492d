// HealthServer answers health probes of a process: grpc.health.v1.Health, in
// clear text, and nothing else.
//
// A port of its own, because Kubernetes' gRPC probes speak no TLS
// (https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/#define-a-grpc-liveness-probe)
// and because a prober needs no further rights.
#ifndef RINGMASTER_COMMON_RPC_HEALTH_SERVER_H_
#define RINGMASTER_COMMON_RPC_HEALTH_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/config/address.h"

namespace ringmaster {

// The service whose status says whether a process is ready for work; the empty
// name stands for the process being alive.
inline constexpr char kReadyService[] = "ready";

// Thread-safe. Free of gRPC's headers.
class HealthServer {
 public:
  // Listens on `address` (port 0: any free one). The process is alive, and not
  // ready, until Set says otherwise.
  //   FAILED_PRECONDITION  cannot listen there
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<HealthServer>> Start(
      const HostPort& address);
  ~HealthServer();
  HealthServer(const HealthServer&) = delete;
  HealthServer& operator=(const HealthServer&) = delete;

  void Set(bool is_live, bool is_ready);

  // The address that it listens on, with the chosen port.
  [[nodiscard]] const HostPort& address() const;

 private:
  struct Impl;
  explicit HealthServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_RPC_HEALTH_SERVER_H_
