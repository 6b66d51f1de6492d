// The probe measures what collectives cost on this machine, for cost_model.h.
//
// Two threads of this process are the ranks of a world of two, connected as the
// ranks of a job are (ConnectMesh), and reduce: a few numbers for the latency, a
// buffer larger than a core's own caches for the time per byte, by each
// transport. So the costs are those of the engine, and with them the model
// predicts what was measured. Other workers of the host may be at it at the same
// time: of several short bursts the quickest counts.
// Linux only.
#ifndef RINGMASTER_WORKER_COLLECTIVE_PROBE_H_
#define RINGMASTER_WORKER_COLLECTIVE_PROBE_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/plan/collective_costs.h"

namespace ringmaster {

struct ProbeOptions {
  Clock* clock = nullptr;  // the real one; outlives the call
  // For all transports together. After it the least that must be measured is
  // still waited for, for twice as long.
  absl::Duration time_limit = absl::Milliseconds(20);
  // The network interface that other hosts are reached over; empty: not known.
  std::string network_interface = "";
  std::string network_directory = "/sys/class/net";
};

struct ProbeResult {
  MachineCosts costs;  // the build's default where nothing could be measured
  // A line for each of those: "shared memory: forbidden on this host".
  std::vector<std::string> remarks;
  bool has_path = false;    // some transport could be measured
  absl::Duration duration;  // what it took
};

// Blocks for about the time limit; uses a thread of its own and 10 MiB meanwhile.
// What is between hosts cannot be measured alone: its time per byte comes from
// the speed of the interface's link, if the kernel tells it.
[[nodiscard]] ProbeResult MeasureCosts(const ProbeOptions& options);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_PROBE_H_
