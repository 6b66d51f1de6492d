// RuntimeMetrics is what Prometheus reads of a coordinator that runs.
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

  // Asks the runtime for its status and adds what that tells; only
  // ringmaster_coordinator_up, 0, and earlier incidents if it does not answer.
  void AddTo(MetricPage& page) const;

 private:
  CoordinatorRuntime& runtime_;
  const absl::Duration patience_;
  // A question that was asked may be answered when nobody waits any more.
  const std::shared_ptr<IncidentTally> tally_ =
      std::make_shared<IncidentTally>();
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_METRICS_H_
