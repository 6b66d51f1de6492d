// UpdateRules says when a job's parameter servers make updates, and from which
// gradients.
#ifndef RINGMASTER_COMMON_PARAMETER_SERVER_UPDATE_RULES_H_
#define RINGMASTER_COMMON_PARAMETER_SERVER_UPDATE_RULES_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "common/optimizer/optimizer_config.h"

namespace ringmaster {

namespace v1 {
class TrainProgram;
}  // namespace v1

struct UpdateRules {
  bool is_synchronous = true;  // bsp
  // If not synchronous, how many steps a worker may be ahead of the slowest
  // (ssp); nullopt: no worker waits (async).
  std::optional<int64_t> staleness = std::nullopt;
  bool is_deterministic = false;
  bool clips = false;  // updates wait for the global norm

  friend bool operator==(const UpdateRules&, const UpdateRules&) = default;
};

// Returns the rules that train.parameter_server of `program`, which has its
// defaults (DefaultProgram), sets. Pure.
//   INVALID_ARGUMENT  names fields that do not go together
[[nodiscard]] absl::StatusOr<UpdateRules> ParseUpdateRules(
    const v1::TrainProgram& program, const OptimizerConfig& optimizer);

// Returns the number of lanes of each holder of the job's shards (LaneOfShard).
[[nodiscard]] int LanesOf(const v1::TrainProgram& program);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PARAMETER_SERVER_UPDATE_RULES_H_
