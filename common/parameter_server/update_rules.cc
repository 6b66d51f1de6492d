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
  switch (spec.consistency()) {
    case v1::CONSISTENCY_UNSPECIFIED:
    case v1::CONSISTENCY_BSP:
      return rules;
    case v1::CONSISTENCY_SSP:
      if (spec.staleness() < 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("train.parameter_server.staleness must be at least 1, "
                         "got ",
                         spec.staleness()));
      }
      rules.staleness = spec.staleness();
      break;
    case v1::CONSISTENCY_ASYNC:
      break;
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "train.parameter_server.consistency is ", spec.consistency(),
          ", which this program does not know; it may be older than the "
          "coordinator"));
  }
  rules.is_synchronous = false;
  if (rules.clips) {
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
