// The costs of collectives, by which algorithms are chosen. Plain values.
//
// Workers measure MachineCosts (worker/collective/probe.h), the coordinator settles on one set for all members of a
// generation (server/coordinator/core/placement/cost_agreement.h), and each member derives the same CollectiveCosts
// from it (worker/collective/cost_model.h).
#ifndef RINGMASTER_COMMON_PLAN_COLLECTIVE_COSTS_H_
#define RINGMASTER_COMMON_PLAN_COLLECTIVE_COSTS_H_

#include "absl/status/status.h"

namespace ringmaster {

// The costs of one pair of ranks.
struct PathCost {
  double latency = 0;           // seconds for a small frame, one way
  double seconds_per_byte = 0;  // while both directions are busy

  friend bool operator==(const PathCost&, const PathCost&) = default;
};

// The costs on a machine. The defaults are those measured between two cores of
// one socket (docs/benchmarks/collectives.md), and a 10 Gbit/s network between
// hosts.
struct MachineCosts {
  // Between ranks of a host.
  PathCost shared_memory = {1.2e-6, 1.2e-10};
  PathCost unix_socket = {4e-6, 1.5e-10};
  PathCost tcp = {8e-6, 2e-10};
  // Between hosts.
  PathCost remote = {2.5e-5, 8.5e-10};
  double reduce_seconds_per_byte = 7e-11;
  // Ranks of one host that can run at the same time. More ranks than cores take
  // turns.
  int cores = 16;

  friend bool operator==(const MachineCosts&, const MachineCosts&) = default;
};

// The costs for a job, in which all ranks of a host use the same transport.
struct CollectiveCosts {
  PathCost local = MachineCosts().shared_memory;  // inside a host
  PathCost remote = MachineCosts().remote;        // between hosts
  double reduce_seconds_per_byte = MachineCosts().reduce_seconds_per_byte;
  int cores_per_host = MachineCosts().cores;

  friend bool operator==(const CollectiveCosts&,
                         const CollectiveCosts&) = default;
};

// INVALID_ARGUMENT names the first impossible number: not finite, a time of zero or more than a second, or no core.
[[nodiscard]] absl::Status CheckCosts(const MachineCosts& costs);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PLAN_COLLECTIVE_COSTS_H_
