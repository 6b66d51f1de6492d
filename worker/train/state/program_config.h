// ProgramConfig is a training program: the job's message, and in the engine's
// own terms what needs more than reading a field.
//
// Thread-safety: a value.
#ifndef RINGMASTER_WORKER_TRAIN_STATE_PROGRAM_CONFIG_H_
#define RINGMASTER_WORKER_TRAIN_STATE_PROGRAM_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/optimizer/optimizer_config.h"
#include "common/parameter_server/update_rules.h"
#include "common/plan/partition.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/data/data_config.h"
#include "worker/member/collective_config.h"
#include "worker/nn/compute.h"
#include "worker/nn/model_config.h"
#include "worker/train/state/emulated_model.h"

namespace ringmaster {

struct ProgramConfig {
  // As the job's author wrote it, with all defaults; values in the engine's own
  // terms are repeated below.
  v1::TrainProgram program = DefaultedProgram();
  ModelConfig model = {};
  DataConfig data = {};  // shape and vocabulary come from the model later
  OptimizerConfig optimizer = {};
  Precision precision = Precision::kFloat32;
  CollectiveConfig collective = {};  // of the gradients' all-reduces
  EmulationConfig emulation = {};    // off: the model computes
  // The rules of servers that update the parameters; nullopt: an all-reduce.
  std::optional<UpdateRules> parameter_server = std::nullopt;

  // Returns the number of updates skipped in a row, because the gradient was
  // not finite, after which the job fails.
  [[nodiscard]] int64_t max_skipped_in_a_row() const {
    const v1::NonFiniteSpec& spec = program.non_finite();
    return spec.policy() == v1::NON_FINITE_POLICY_FAIL ? 1
                                                       : spec.max_in_a_row();
  }

  // Returns true if a rank keeps a part of the moments; mirrors() is how many
  // other ranks keep the same part.
  [[nodiscard]] bool is_sharded() const {
    return program.has_optimizer_sharding();
  }
  [[nodiscard]] int mirrors() const {
    return program.optimizer_sharding().mirror();
  }

  // Returns true if what comes after an evaluation depends on those before it, so
  // that ranks and checkpoints have to know them.
  [[nodiscard]] bool follows_evaluations() const {
    return program.has_early_stop() || program.checkpoint().keep_best();
  }

  // Returns the number of samples that are computed together: parts of a batch
  // have whole groups of them.
  [[nodiscard]] int64_t sample_group() const;
  // Returns the samples of a batch that belong to a rank.
  [[nodiscard]] ElemRange PartOf(int data_index, int world_size) const {
    return PartOfBatch(data_index, world_size, program.global_batch(),
                       sample_group());
  }

  // Returns true if parameters are updated with every rank's gradient at once,
  // so that all ranks hold the same after every step.
  [[nodiscard]] bool is_synchronous() const {
    return !parameter_server.has_value() || parameter_server->is_synchronous;
  }

  // Returns the settings that ranks must agree on besides model, layout and
  // data; for Plan's settings.
  std::string CanonicalText() const;

 private:
  static v1::TrainProgram DefaultedProgram();
};

// Translates a program, by DefaultProgram's rules: a worker does not rely on its
// coordinator. The model's own settings are for CreateModel to check.
// `default_precision` is that of the device.
//   INVALID_ARGUMENT  names the field
[[nodiscard]] absl::StatusOr<ProgramConfig> ParseProgram(
    const v1::TrainProgram& given,
    Precision default_precision = Precision::kFloat32);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STATE_PROGRAM_CONFIG_H_
