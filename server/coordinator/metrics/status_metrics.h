// Status metrics: the coordinator's state in Prometheus's form: the pool, the
// jobs, their interruptions and the cost of these. Pure.
//
// Labels: `run` is a job's id (Prometheus uses `job` for the scrape job),
// `worker` a worker's name. Figures of a run are present while it is queued or
// running, and for kEndedRunShown after its end, so that a scrape sees how it
// ended.
#ifndef RINGMASTER_SERVER_COORDINATOR_METRICS_STATUS_METRICS_H_
#define RINGMASTER_SERVER_COORDINATOR_METRICS_STATUS_METRICS_H_

#include "absl/time/time.h"
#include "common/metrics/metric_page.h"

namespace ringmaster::v1 {
class Status;
}  // namespace ringmaster::v1

namespace ringmaster::coordinator {

inline constexpr absl::Duration kEndedRunShown = absl::Minutes(10);

void AddStatusMetrics(const v1::Status& status, MetricPage& page);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_METRICS_STATUS_METRICS_H_
