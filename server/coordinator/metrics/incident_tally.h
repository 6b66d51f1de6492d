// IncidentTally counts the incidents of all jobs since it was made, for the
// metrics: how many workers failed, of what, and how long recovering took.
//
// A job tells of its last incidents only; each is counted once, when it is over.
// Thread-safe.
#ifndef RINGMASTER_SERVER_COORDINATOR_METRICS_INCIDENT_TALLY_H_
#define RINGMASTER_SERVER_COORDINATOR_METRICS_INCIDENT_TALLY_H_

#include <cstdint>
#include <map>
#include <string>

#include "common/metrics/metric_page.h"
#include "common/sync/mutex.h"

namespace ringmaster::v1 {
class Incident;
class Status;
}  // namespace ringmaster::v1

namespace ringmaster::coordinator {

class IncidentTally {
 public:
  // Counts what is new in a status.
  void Update(const v1::Status& status) EXCLUDES(mutex_);

  void AddMetrics(MetricPage& page) const EXCLUDES(mutex_);

 private:
  void Count(const v1::Incident& incident) REQUIRES(mutex_);

  mutable Mutex mutex_;
  // The number of the last incident that was counted, by job.
  std::map<std::string, int32_t> counted_ GUARDED_BY(mutex_);
  // By evidence and, if the process is known to have ended, how.
  std::map<std::string, int64_t> failures_ GUARDED_BY(mutex_);
  std::map<std::string, prometheus::ClientMetric::Histogram> recoveries_
      GUARDED_BY(mutex_);  // by phase
  int64_t lost_steps_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_METRICS_INCIDENT_TALLY_H_
