// The cost model predicts how long a collective takes and which algorithm is
// the fastest: the alpha-beta-gamma model of Thakur, Rabenseifner and Gropp
// (2005).
//
// A prediction is the latency of the messages that must follow one another,
// plus the time of the busiest host: for copies and sums of its ranks, on as
// many cores as it has, and for traffic on its network, which its ranks share.
// The two do not overlap in the model.
//
// Pure: the costs are measured elsewhere (probe.h). All ranks must use the same
// costs, or they would choose different algorithms; the coordinator sends them.
#ifndef RINGMASTER_WORKER_COLLECTIVE_COST_MODEL_H_
#define RINGMASTER_WORKER_COLLECTIVE_COST_MODEL_H_

#include <cstdint>

#include "common/plan/collective_costs.h"
#include "common/plan/topology.h"
#include "common/transport/channel.h"
#include "worker/collective/algorithm.h"
#include "worker/collective/communicator.h"

namespace ringmaster {

// Returns the costs of a job's collectives if `best` is the best transport that
// its ranks on one host try. It depends on what the job asks for, not on what a
// pair of ranks got, since all ranks must arrive at the same costs.
[[nodiscard]] CollectiveCosts CostsOver(Transport best,
                                        const MachineCosts& machine);

// Returns the seconds that an all-reduce of `bytes` on the wire takes. Requires
// an algorithm other than kAuto.
[[nodiscard]] double PredictAllReduce(Algorithm algorithm, int64_t bytes,
                                      const Topology& topology,
                                      const CollectiveCosts& costs);

// Returns the usable algorithm with the smallest prediction; never
// gather_broadcast. Ties go to the earlier one of kAlgorithms.
[[nodiscard]] Algorithm ChooseAllReduce(int64_t bytes, const Topology& topology,
                                        const CollectiveCosts& costs);

// The way a communicator chooses an algorithm if a request leaves it open.
struct AlgorithmPolicy {
  // The algorithm of all-reduces; if it is kAuto, or not usable here, `costs`
  // decide.
  Algorithm algorithm = Algorithm::kAuto;
  CollectiveCosts costs;
};

// Returns the algorithm that `request` runs as; usable, and never kAuto, if its
// own is usable. Ranks with the same policy choose alike.
[[nodiscard]] Algorithm ChooseAlgorithm(const CollectiveRequest& request,
                                        const Topology& topology,
                                        const AlgorithmPolicy& policy);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_COST_MODEL_H_
