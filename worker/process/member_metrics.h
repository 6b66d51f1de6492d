// The metrics that a worker or a parameter server exports about itself to
// Prometheus. Pure.
//
// The coordinator exports the state of a job (server/coordinator/metrics);
// these cover what only the process knows, and times when the coordinator is
// away.
#ifndef RINGMASTER_WORKER_PROCESS_MEMBER_METRICS_H_
#define RINGMASTER_WORKER_PROCESS_MEMBER_METRICS_H_

#include "common/metrics/metric_page.h"
#include "worker/member/job_runner.h"

namespace ringmaster {

// `is_attached`: it has a session with the coordinator.
void AddMemberMetrics(const TrainProgress& progress, bool is_attached,
                      MetricPage& page);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PROCESS_MEMBER_METRICS_H_
