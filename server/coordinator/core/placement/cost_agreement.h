// CostAgreement: the costs of collectives that all members of a generation go
// by. Pure.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_COST_AGREEMENT_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_COST_AGREEMENT_H_

#include <optional>
#include <vector>

#include "common/plan/collective_costs.h"

namespace ringmaster::coordinator {

// One set for those that were measured, all of which passed CheckCosts: the
// median of each number, of an even count the lower of the two in the middle.
// Nothing if there are none: their builds' defaults are the same for all.
//
// Cores are busy when workers measure, and a disturbed measurement is too slow
// by any factor. A mean, or the worst, would let that one decide; the
// best would go by the quickest of several different machines.
[[nodiscard]] std::optional<MachineCosts> AgreeOnCosts(
    const std::vector<MachineCosts>& measured);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_COST_AGREEMENT_H_
