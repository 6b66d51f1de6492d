// MetricsServer lets Prometheus read a process's metrics, and probes its
// health: GET /metrics, /healthz and /readyz over HTTP, in clear text.
#ifndef RINGMASTER_COMMON_METRICS_METRICS_SERVER_H_
#define RINGMASTER_COMMON_METRICS_METRICS_SERVER_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/address.h"
#include "common/metrics/metric_page.h"

namespace ringmaster {

class RunningServer;

// Thread-compatible. Free of the HTTP server's headers.
class MetricsServer {
 public:
  // Fills the page that a scrape gets; called on threads of the server, several
  // at once, until the server is destroyed.
  using Collect = std::function<void(MetricPage& page)>;
  // The answer to a probe: "ok", or 503 with the error's message. Called as
  // Collect is.
  using Probe = std::function<absl::Status()>;

  // Listens on `address` (port 0: any free one).
  //   FAILED_PRECONDITION  cannot listen there
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      const HostPort& address, Collect collect,
      Probe is_live = [] { return absl::OkStatus(); },
      Probe is_ready = [] { return absl::OkStatus(); });
  // Waits for the scrapes under way, for a second.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // The address that it listens on, with the chosen port.
  [[nodiscard]] const HostPort& address() const;

 private:
  explicit MetricsServer(std::unique_ptr<RunningServer> server);

  const std::unique_ptr<RunningServer> server_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_METRICS_METRICS_SERVER_H_
