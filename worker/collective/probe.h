// The probe measures what collectives cost on this machine, for cost_model.h.
//
// Two threads of this process are the ranks of a world of two, connected as the
// ranks of a job are (ConnectMesh), and reduce: a few numbers for the latency,
// a buffer larger than a core's own caches for the time per byte, by each
// transport. So the costs are those of the engine, and with them the model
// predicts what was measured. Other workers of the host may measure at the same
// time, so the quickest of several short bursts counts.
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
  // The time for all transports together. After it, the probe still waits up to
  // twice as long for the minimum that must be measured.
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

// Blocks for about the time limit; uses a thread of its own and 10 MiB
// meanwhile. The path between hosts cannot be measured from one host: its time
// per byte comes from the speed of the interface's link, if the kernel knows
// it.
[[nodiscard]] ProbeResult MeasureCosts(const ProbeOptions& options);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_PROBE_H_
