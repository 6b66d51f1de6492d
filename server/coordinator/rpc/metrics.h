// RuntimeMetrics provides the metrics of a running coordinator to Prometheus.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_METRICS_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_METRICS_H_

#include <memory>

#include "absl/time/time.h"
#include "common/metrics/metric_page.h"
#include "server/coordinator/metrics/incident_tally.h"

namespace ringmaster::coordinator {

class CoordinatorRuntime;

// Thread-safe. The runtime must outlive it.
class RuntimeMetrics {
 public:
  // A scrape gets no status if there is none after this long.
  static constexpr absl::Duration kPatience = absl::Seconds(2);

  explicit RuntimeMetrics(CoordinatorRuntime& runtime,
                          absl::Duration patience = kPatience)
      : runtime_(runtime), patience_(patience) {}

  // Asks the runtime for its status and adds its metrics; if it does not
  // answer, only ringmaster_coordinator_up as 0, and earlier incidents.
  void AddTo(MetricPage& page) const;

 private:
  CoordinatorRuntime& runtime_;
  const absl::Duration patience_;
  // Shared, since a query may be answered after its caller has stopped waiting.
  const std::shared_ptr<IncidentTally> tally_ =
      std::make_shared<IncidentTally>();
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_METRICS_H_
