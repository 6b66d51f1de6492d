// How long a collective should take, and which algorithm is the fastest: the
// alpha-beta-gamma model of Thakur, Rabenseifner and Gropp (2005).
//
// A prediction is the latency of the messages that must follow one another,
// plus the time of the busiest host: what its ranks copy and add, on as many
// cores as it has, and what goes through its network, which its ranks share.
// The two do not overlap in the model.
//
// Pure: the costs were measured elsewhere (probe.h). All ranks must use the same
// costs, or they would choose differently: the coordinator sends them.
#ifndef RINGMASTER_WORKER_COLLECTIVE_COST_MODEL_H_
#define RINGMASTER_WORKER_COLLECTIVE_COST_MODEL_H_

#include <cstdint>

#include "common/plan/collective_costs.h"
#include "common/plan/topology.h"
#include "common/transport/channel.h"
#include "worker/collective/algorithm.h"
#include "worker/collective/communicator.h"

namespace ringmaster {

// What a job's collectives cost where `best` is the best transport that its ranks
// of a host try. By what the job asks for, not by what a pair of ranks got: all
// ranks must come to the same.
[[nodiscard]] CollectiveCosts CostsOver(Transport best,
                                        const MachineCosts& machine);

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
