// Monitoring is what a long-running program reports about itself: metrics for
// Prometheus and health for probes. Both are in clear text, each on a port of
// its own, and only if a flag asks for it; the port of metrics answers probes
// too.
#ifndef RINGMASTER_COMMON_PROGRAM_MONITORING_H_
#define RINGMASTER_COMMON_PROGRAM_MONITORING_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/metrics/metric_page.h"
#include "common/metrics/metrics_server.h"
#include "common/program/health.h"
#include "common/program/program_flags.h"
#include "common/rpc/health_server.h"
#include "common/sync/mutex.h"

namespace ringmaster {

// Adds when each certificate ends that this process shows (tls_watch.h). Any thread.
void AddCertificateMetrics(MetricPage& page);

// Thread-safe.
class Monitoring {
 public:
  // Serves what the flags ask for; `program` is its name in the metrics.
  // `collect` adds the program's metrics to those that every process has; see
  // MetricsServer::Collect.
  //   INVALID_ARGUMENT, FAILED_PRECONDITION  an address that cannot be listened
  //                                          on; names the flag; exit code 2
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Monitoring>> Start(
      const MonitoringFlags& flags, std::string_view program,
      MetricsServer::Collect collect);
  Monitoring(const Monitoring&) = delete;
  Monitoring& operator=(const Monitoring&) = delete;

  // The answer to every probe from now on. A line of the log tells a change of
  // whether the program is alive or ready. Before the first call it is alive, and
  // not ready. One call at a time.
  void Set(const Health& health) EXCLUDES(mutex_);

 private:
  Monitoring() = default;

  [[nodiscard]] Health health() const EXCLUDES(mutex_);

  mutable Mutex mutex_;
  Health health_state_ GUARDED_BY(mutex_) = {
      .live = absl::OkStatus(), .ready = absl::UnavailableError("starts")};
  std::unique_ptr<HealthServer> health_;    // null: not served
  std::unique_ptr<MetricsServer> metrics_;  // null: not served
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PROGRAM_MONITORING_H_
