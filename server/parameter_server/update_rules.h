// UpdateRules say when and of what a job's parameter servers make updates.
#ifndef RINGMASTER_SERVER_PARAMETER_SERVER_UPDATE_RULES_H_
#define RINGMASTER_SERVER_PARAMETER_SERVER_UPDATE_RULES_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "common/optimizer/optimizer_config.h"

namespace ringmaster {

namespace v1 {
class TrainProgram;
}  // namespace v1

struct UpdateRules {
  bool is_synchronous = true;
  std::optional<int64_t> staleness = std::nullopt;  // nullopt: nobody waits
  bool is_deterministic = false;
  bool clips = false;  // updates wait for the global norm
};

// As train.parameter_server says. Pure.
//   INVALID_ARGUMENT  what is not known, or does not go together; names the field
[[nodiscard]] absl::StatusOr<UpdateRules> ParseUpdateRules(
    const v1::TrainProgram& program, const OptimizerConfig& optimizer);

}  // namespace ringmaster

#endif  // RINGMASTER_SERVER_PARAMETER_SERVER_UPDATE_RULES_H_
