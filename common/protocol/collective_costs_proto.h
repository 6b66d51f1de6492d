// MachineCosts as ringmaster.v1.CollectiveCosts and back.
#ifndef RINGMASTER_COMMON_PROTOCOL_COLLECTIVE_COSTS_PROTO_H_
#define RINGMASTER_COMMON_PROTOCOL_COLLECTIVE_COSTS_PROTO_H_

#include "absl/status/statusor.h"
#include "common/plan/collective_costs.h"

namespace ringmaster {

namespace v1 {
class CollectiveCosts;
}  // namespace v1

[[nodiscard]] v1::CollectiveCosts ToProto(const MachineCosts& costs);

// INVALID_ARGUMENT as of CheckCosts.
[[nodiscard]] absl::StatusOr<MachineCosts> FromProto(
    const v1::CollectiveCosts& proto);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PROTOCOL_COLLECTIVE_COSTS_PROTO_H_
