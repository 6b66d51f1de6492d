// What a worker or a parameter server tells Prometheus of itself. Pure.
//
// How a job is doing, the coordinator tells (server/coordinator/metrics); this is
// for what only the process knows, and for when the coordinator is away.
#ifndef RINGMASTER_WORKER_PROCESS_MEMBER_METRICS_H_
#define RINGMASTER_WORKER_PROCESS_MEMBER_METRICS_H_

#include "common/metrics/metric_page.h"
#include "worker/train/trainer.h"

namespace ringmaster {

// `is_attached`: it has a session with the coordinator.
void AddMemberMetrics(const TrainProgress& progress, bool is_attached,
                      MetricPage& page);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PROCESS_MEMBER_METRICS_H_
