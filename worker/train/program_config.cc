#include "worker/train/program_config.h"

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {
namespace {

absl::Status AtLeast(const char* field, int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "train.", field, " must be at least ", least, ", got ", value));
}

absl::Status ParseModel(const v1::ModelSpec& spec, ModelConfig& config) {
  if (spec.model_case() != v1::ModelSpec::kMlp) {
    return absl::InvalidArgumentError(
        "train.model names no model that this worker has; it has mlp");
  }
  const v1::MlpSpec& mlp = spec.mlp();
  config.kind = "mlp";
  config.settings = {
      {"window", {static_cast<double>(mlp.window())}},
      {"embedding_dim", {static_cast<double>(mlp.embedding_dim())}},
      {"hidden_dim", {static_cast<double>(mlp.hidden_dim())}},
      {"hidden_layers", {static_cast<double>(mlp.hidden_layers())}}};
  return absl::OkStatus();
}

absl::Status ParseSource(const v1::DataSpec& spec, DataConfig& config) {
  switch (spec.source_case()) {
    case v1::DataSpec::kText:
      config.kind = "text";
      config.path = spec.text().path();
      config.eval_fraction = spec.text().eval_fraction();
      if (spec.text().max_bytes() > 0)
        config.max_bytes = spec.text().max_bytes();
      break;
    case v1::DataSpec::kSynthetic:
      config.kind = "synthetic";
      config.num_samples = spec.synthetic().samples();
      config.eval_fraction = spec.synthetic().eval_fraction();
      break;
    default:
      return absl::InvalidArgumentError(
          "train.data names no source that this worker has; it has text and "
          "synthetic");
  }
  return config.Validate();
}

absl::Status ParseOptimizer(const v1::OptimizerSpec& spec,
                            OptimizerConfig& config) {
  if (spec.optimizer_case() != v1::OptimizerSpec::kAdamw) {
    return absl::InvalidArgumentError(
        "train.optimizer names no optimizer that this worker has; it has "
        "adamw");
  }
  config.kind = "adamw";
  config.learning_rate = spec.adamw().learning_rate();
  config.beta1 = spec.adamw().beta1();
  config.beta2 = spec.adamw().beta2();
  config.epsilon = spec.adamw().epsilon();
  config.weight_decay = spec.adamw().weight_decay();
  config.clip_norm = spec.adamw().clip_norm();
  return config.Validate();
}

}  // namespace

std::string ProgramConfig::CanonicalText() const {
  return absl::StrCat(model.CanonicalText(), "\n", data.CanonicalText(), "\n",
                      optimizer.CanonicalText(), "\nsteps=", steps,
                      " global_batch=", global_batch, " seed=", seed,
                      " evaluate_every=", evaluate_every,
                      " evaluation_samples=", evaluation_samples,
                      " hash_every=", hash_every);
}

absl::StatusOr<ProgramConfig> ParseProgram(const v1::TrainProgram& program) {
  ProgramConfig config;
  RETURN_IF_ERROR(ParseModel(program.model(), config.model));
  config.data.seed = static_cast<uint64_t>(program.seed());
  RETURN_IF_ERROR(ParseSource(program.data(), config.data));
  RETURN_IF_ERROR(ParseOptimizer(program.optimizer(), config.optimizer));
  RETURN_IF_ERROR(AtLeast("steps", program.steps(), 1));
  RETURN_IF_ERROR(AtLeast("global_batch", program.global_batch(), 1));
  RETURN_IF_ERROR(AtLeast("evaluate_every", program.evaluate_every(), 0));
  RETURN_IF_ERROR(
      AtLeast("evaluation_samples", program.evaluation_samples(), 0));
  RETURN_IF_ERROR(AtLeast("bucket_bytes", program.bucket_bytes(), 1));
  RETURN_IF_ERROR(AtLeast("hash_every", program.hash_every(), 0));
  config.steps = program.steps();
  config.global_batch = program.global_batch();
  config.seed = static_cast<uint64_t>(program.seed());
  config.evaluate_every = program.evaluate_every();
  config.evaluation_samples = program.evaluation_samples();
  config.bucket_bytes = program.bucket_bytes();
  config.hash_every = program.hash_every();
  return config;
}

}  // namespace ringmaster
