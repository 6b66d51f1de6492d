#include "common/optimizer/optimizer_spec.h"

#include <string>

#include "absl/status/status.h"
#include "common/status/status_macros.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {
namespace {

void ParseAdamw(const v1::AdamwSpec& spec, OptimizerConfig& config) {
  config.kind = "adamw";
  config.learning_rate = spec.learning_rate();
  config.beta1 = spec.beta1();
  config.beta2 = spec.beta2();
  config.epsilon = spec.epsilon();
  config.weight_decay = spec.weight_decay();
  config.clip_norm = spec.clip_norm();
  config.decay_matrices_only = spec.decay_matrices_only();
}

void ParseSgd(const v1::SgdSpec& spec, OptimizerConfig& config) {
  config.kind = "sgd";
  config.learning_rate = spec.learning_rate();
  config.momentum = spec.momentum();
  config.nesterov = spec.nesterov();
  config.weight_decay = spec.weight_decay();
  config.clip_norm = spec.clip_norm();
  config.decay_matrices_only = spec.decay_matrices_only();
}

std::string NameOf(v1::ScheduleKind kind) {
  switch (kind) {
    case v1::SCHEDULE_KIND_COSINE:
      return "cosine";
    case v1::SCHEDULE_KIND_LINEAR:
      return "linear";
    case v1::SCHEDULE_KIND_WSD:
      return "wsd";
    default:
      return "constant";
  }
}

}  // namespace

absl::StatusOr<OptimizerConfig> ParseOptimizer(const v1::OptimizerSpec& spec) {
  OptimizerConfig config;
  switch (spec.optimizer_case()) {
    case v1::OptimizerSpec::kAdamw:
      ParseAdamw(spec.adamw(), config);
      break;
    case v1::OptimizerSpec::kSgd:
      ParseSgd(spec.sgd(), config);
      break;
    case v1::OptimizerSpec::OPTIMIZER_NOT_SET:
      return absl::InvalidArgumentError(
          "train.optimizer names no optimizer that this build has; it has "
          "adamw and sgd");
  }
  const v1::ScheduleSpec& schedule = spec.schedule();
  config.schedule.kind = NameOf(schedule.kind());
  config.schedule.warmup_steps = schedule.warmup_steps();
  config.schedule.final_ratio = schedule.final_ratio();
  config.schedule.decay_steps = schedule.decay_steps();
  // 0, as of a spec without defaults, is 1.
  if (spec.layer_decay() != 0) config.layer_decay = spec.layer_decay();
  RETURN_IF_ERROR(config.Validate());
  return config;
}

}  // namespace ringmaster
