// RuntimeMetrics is what Prometheus reads of a coordinator that runs.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_METRICS_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_METRICS_H_

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

  explicit RuntimeMetrics(CoordinatorRuntime& runtime) : runtime_(runtime) {}

  // Asks the runtime for its status and adds what that tells; only
  // ringmaster_coordinator_up, 0, and earlier incidents if it does not answer.
  void AddTo(MetricPage& page);

 private:
  CoordinatorRuntime& runtime_;
  IncidentTally tally_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_METRICS_H_
