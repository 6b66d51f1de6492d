#include "common/parameter_server/update_rules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {

absl::StatusOr<UpdateRules> ParseUpdateRules(const v1::TrainProgram& program,
                                             const OptimizerConfig& optimizer) {
  const v1::ParameterServerSpec& spec = program.parameter_server();
  UpdateRules rules;
  rules.is_deterministic = spec.deterministic();
  rules.clips = optimizer.clip_norm > 0;
  rules.is_synchronous = spec.consistency() != v1::CONSISTENCY_SSP &&
                         spec.consistency() != v1::CONSISTENCY_ASYNC;
  if (spec.consistency() == v1::CONSISTENCY_SSP)
    rules.staleness = spec.staleness();
  if (rules.clips && !rules.is_synchronous) {
    return absl::InvalidArgumentError(
        "train.optimizer.clip_norm needs the norm of everybody's gradient, "
        "which only train.parameter_server.consistency bsp has");
  }
  return rules;
}

int LanesOf(const v1::TrainProgram& program) {
  return std::max(1, program.collective().connections());
}

}  // namespace ringmaster
