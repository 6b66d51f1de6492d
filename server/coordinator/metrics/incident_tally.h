// IncidentTally counts the incidents of all jobs since its creation, for the
// metrics: by their cause, and with the time that recovery took.
//
// The state keeps a job's last incidents only; each is counted once, when it is
// over. Thread-safe.
#ifndef RINGMASTER_SERVER_COORDINATOR_METRICS_INCIDENT_TALLY_H_
#define RINGMASTER_SERVER_COORDINATOR_METRICS_INCIDENT_TALLY_H_

#include <cstdint>
#include <map>
#include <string>

#include "common/metrics/metric_page.h"
#include "common/sync/mutex.h"
#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

class IncidentTally {
 public:
  // Counts what is new.
  void Update(const State& state) EXCLUDES(mutex_);

  void AddMetrics(MetricPage& page) const EXCLUDES(mutex_);

 private:
  void Count(const v1::Incident& incident) REQUIRES(mutex_);

  mutable Mutex mutex_;
  // The number of the last incident that was counted, by the job's number.
  std::map<int64_t, int> counted_ GUARDED_BY(mutex_);
  std::map<std::string, int64_t> faults_ GUARDED_BY(mutex_);  // by evidence
  std::map<std::string, prometheus::ClientMetric::Histogram> recoveries_
      GUARDED_BY(mutex_);  // by phase
  int64_t lost_steps_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_METRICS_INCIDENT_TALLY_H_
