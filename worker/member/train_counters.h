// TrainCounters is what this process has done since it started, as counters of
// a registry.
//
// Thread-safety: as MetricRegistry. The registry must outlive it.
#ifndef RINGMASTER_WORKER_MEMBER_TRAIN_COUNTERS_H_
#define RINGMASTER_WORKER_MEMBER_TRAIN_COUNTERS_H_

#include "common/metrics/metrics.h"
#include "worker/collective/communicator.h"

namespace ringmaster {

struct TrainCounters {
  explicit TrainCounters(MetricRegistry& registry);

  // Adds what a generation's communicator has moved; once, at its end.
  void AddWire(const WireCounters& wire);

  Counter& generations;
  Counter& steps;            // committed ones
  Counter& samples;          // of this rank
  Counter& skipped_updates;  // left out because the gradient was not finite
  Counter& payload_sent_bytes;
  Counter& framing_sent_bytes;
  Counter& refused_frames;
  Counter& refused_connections;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_MEMBER_TRAIN_COUNTERS_H_
