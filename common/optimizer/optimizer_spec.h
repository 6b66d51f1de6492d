// ParseOptimizer translates a job's spec of its optimizer.
#ifndef RINGMASTER_COMMON_OPTIMIZER_OPTIMIZER_SPEC_H_
#define RINGMASTER_COMMON_OPTIMIZER_OPTIMIZER_SPEC_H_

#include "absl/status/statusor.h"
#include "common/optimizer/optimizer_config.h"

namespace ringmaster {

namespace v1 {
class OptimizerSpec;
}  // namespace v1

// Parses a spec whose defaults are filled in. Pure.
//   INVALID_ARGUMENT  no optimizer that this build has, or OptimizerConfig's
//                     Validate
[[nodiscard]] absl::StatusOr<OptimizerConfig> ParseOptimizer(
    const v1::OptimizerSpec& spec);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_OPTIMIZER_OPTIMIZER_SPEC_H_
