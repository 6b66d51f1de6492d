#include "server/coordinator/rpc/job_spec_optimizer.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace ringmaster::coordinator {
namespace {

void CheckAdamw(v1::AdamwSpec& adamw, SpecErrors& errors) {
  if (adamw.learning_rate() == 0) adamw.set_learning_rate(0.001);
  if (!adamw.has_beta1()) adamw.set_beta1(0.9);
  if (!adamw.has_beta2()) adamw.set_beta2(0.999);
  if (adamw.epsilon() == 0) adamw.set_epsilon(1e-8);
  if (!adamw.has_weight_decay()) adamw.set_weight_decay(0.01);
  const std::string path = "train.optimizer.adamw.";
  errors.RequireAboveZero(path + "learning_rate", adamw.learning_rate());
  errors.RequireBelowOne(path + "beta1", adamw.beta1());
  errors.RequireBelowOne(path + "beta2", adamw.beta2());
  // Smaller ones vanish in float.
  errors.RequireThat(adamw.epsilon() >= 1e-30 && std::isfinite(adamw.epsilon()),
                     path + "epsilon", "at least 1e-30 and finite",
                     adamw.epsilon());
  errors.RequireNotNegative(path + "weight_decay", adamw.weight_decay());
  errors.RequireNotNegative(path + "clip_norm", adamw.clip_norm());
}

void CheckSgd(v1::SgdSpec& sgd, SpecErrors& errors) {
  if (sgd.learning_rate() == 0) sgd.set_learning_rate(0.1);
  const std::string path = "train.optimizer.sgd.";
  errors.RequireAboveZero(path + "learning_rate", sgd.learning_rate());
  errors.RequireBelowOne(path + "momentum", sgd.momentum());
  errors.RequireNotNegative(path + "weight_decay", sgd.weight_decay());
  errors.RequireNotNegative(path + "clip_norm", sgd.clip_norm());
  if (sgd.nesterov() && sgd.momentum() == 0) {
    errors.Add(
        absl::StrCat(path, "nesterov needs ", path, "momentum above 0, got 0"));
  }
}

void CheckSchedule(v1::ScheduleSpec& schedule, int64_t steps,
                   SpecErrors& errors) {
  if (schedule.kind() == v1::SCHEDULE_KIND_UNSPECIFIED)
    schedule.set_kind(v1::SCHEDULE_KIND_CONSTANT);
  if (!schedule.has_final_ratio()) schedule.set_final_ratio(0.1);
  const std::string path = "train.optimizer.schedule.";
  errors.RequireKnown(v1::ScheduleKind_IsValid(schedule.kind()), path + "kind",
                      "constant or cosine", schedule.kind());
  if (schedule.warmup_steps() < 0) {
    errors.Add(absl::StrCat(path, "warmup_steps must be at least 0, got ",
                            schedule.warmup_steps()));
  } else if (steps >= 1 && schedule.warmup_steps() > steps) {
    errors.Add(absl::StrCat(path, "warmup_steps must be at most train.steps (",
                            steps, "), got ", schedule.warmup_steps()));
  }
  errors.RequireThat(schedule.final_ratio() >= 0 && schedule.final_ratio() <= 1,
                     path + "final_ratio", "at least 0 and at most 1",
                     schedule.final_ratio());
}

}  // namespace

void CheckOptimizer(v1::TrainProgram& train, SpecErrors& errors) {
  v1::OptimizerSpec& optimizer = *train.mutable_optimizer();
  switch (optimizer.optimizer_case()) {
    case v1::OptimizerSpec::kAdamw:
    case v1::OptimizerSpec::OPTIMIZER_NOT_SET:  // the default
      CheckAdamw(*optimizer.mutable_adamw(), errors);
      break;
    case v1::OptimizerSpec::kSgd:
      CheckSgd(*optimizer.mutable_sgd(), errors);
      break;
  }
  CheckSchedule(*optimizer.mutable_schedule(), train.steps(), errors);
}

}  // namespace ringmaster::coordinator
