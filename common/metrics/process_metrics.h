// The metrics of a process in Prometheus' client libraries
// (https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics),
// which prometheus-cpp leaves out.
#ifndef RINGMASTER_COMMON_METRICS_PROCESS_METRICS_H_
#define RINGMASTER_COMMON_METRICS_PROCESS_METRICS_H_

#include <string_view>

#include "common/metrics/metric_page.h"

namespace ringmaster {

// Adds processor time, memory, descriptors and start time of this process, and
// ringmaster_build_info with the version and `program`. Values that the system
// does not report are left out. Any thread.
void AddProcessMetrics(std::string_view program, MetricPage& page);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_METRICS_PROCESS_METRICS_H_
