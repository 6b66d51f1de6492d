// CostAgreement: the costs of collectives that all members of a generation use.
// Pure.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_COST_AGREEMENT_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_COST_AGREEMENT_H_

#include <optional>
#include <vector>

#include "common/plan/collective_costs.h"

namespace ringmaster::coordinator {

// Returns one set of costs for all measured ones, which have passed CheckCosts:
// the median of each number, or the lower of the middle two. nullopt if there
// are none: the builds' defaults are the same for all.
//
// Cores are busy when workers measure, and a disturbed measurement is too slow
// by any factor. A mean, or the worst, would let that one decide; the best
// would follow the fastest of several different machines.
[[nodiscard]] std::optional<MachineCosts> AgreeOnCosts(
    const std::vector<MachineCosts>& measured);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_COST_AGREEMENT_H_
