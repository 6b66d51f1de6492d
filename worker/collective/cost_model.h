// How long a collective should take, and which algorithm is the fastest: the
// alpha-beta-gamma model of Thakur, Rabenseifner and Gropp (2005).
//
// A prediction is the latency of the messages that must follow one another,
// plus the time of the busiest host: what its ranks copy and add, on as many
// cores as it has, and what goes through its network, which its ranks share.
// The two do not overlap in the model.
//
// Pure: the costs were measured elsewhere (probe.h). All ranks must use the same
// costs, or they would choose differently.
#ifndef RINGMASTER_WORKER_COLLECTIVE_COST_MODEL_H_
#define RINGMASTER_WORKER_COLLECTIVE_COST_MODEL_H_

#include <cstdint>

#include "common/plan/topology.h"
#include "worker/collective/algorithm.h"
#include "worker/collective/communicator.h"

namespace ringmaster {

// Of one pair of ranks.
struct PathCost {
  double latency = 0;           // seconds for a small frame, one way
  double seconds_per_byte = 0;  // while both directions are busy

  friend bool operator==(const PathCost&, const PathCost&) = default;
};

// By default what shared memory costs between two cores of one socket and a
// 10 Gbit/s network between hosts: docs/benchmarks/collectives.md.
struct CollectiveCosts {
  PathCost local = {1.2e-6, 1.2e-10};   // inside a host
  PathCost remote = {2.5e-5, 8.5e-10};  // between hosts
  double reduce_seconds_per_byte = 7e-11;
  // Ranks of one host that can run at the same time: its cores. More ranks than
  // cores take turns.
  int cores_per_host = 16;

  friend bool operator==(const CollectiveCosts&,
                         const CollectiveCosts&) = default;
};

// Seconds that an all-reduce of `bytes` on the wire takes. Requires an
// algorithm other than kAuto.
[[nodiscard]] double PredictAllReduce(Algorithm algorithm, int64_t bytes,
                                      const Topology& topology,
                                      const CollectiveCosts& costs);

// The usable algorithm with the smallest prediction; never gather_broadcast.
// Ties go to the earlier one of kAlgorithms.
[[nodiscard]] Algorithm ChooseAllReduce(int64_t bytes, const Topology& topology,
                                        const CollectiveCosts& costs);

// How a communicator chooses where a request leaves it open.
struct AlgorithmPolicy {
  // Of all-reduces; kAuto, or one that is not usable here: by `costs`.
  Algorithm algorithm = Algorithm::kAuto;
  CollectiveCosts costs;
};

// The algorithm that `request` runs as; usable, and never kAuto, if its own is
// usable. Ranks with the same policy choose alike.
[[nodiscard]] Algorithm ChooseAlgorithm(const CollectiveRequest& request,
                                        const Topology& topology,
                                        const AlgorithmPolicy& policy);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_COST_MODEL_H_
