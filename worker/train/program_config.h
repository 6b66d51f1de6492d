// ProgramConfig is a training program in the engine's own terms, taken from the
// job's proto.
//
// Thread-safety: a value.
#ifndef RINGMASTER_WORKER_TRAIN_PROGRAM_CONFIG_H_
#define RINGMASTER_WORKER_TRAIN_PROGRAM_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/optimizer/optimizer_config.h"
#include "common/parameter_server/update_rules.h"
#include "worker/data/data_config.h"
#include "worker/nn/compute.h"
#include "worker/nn/model_config.h"
#include "worker/train/collective_config.h"
#include "worker/train/emulated_model.h"

namespace ringmaster {

namespace v1 {
class TrainProgram;
}  // namespace v1

// The place and the times of checkpoints.
struct CheckpointConfig {
  std::string directory = "";   // empty: none are written
  int64_t every_steps = 0;      // 0: only at the end
  int keep = 2;                 // at least 1
  bool resume = true;           // start from the latest complete one
  bool fails_on_error = false;  // the job, when one cannot be written
};

// Text that the model writes at each evaluation.
struct SampleConfig {
  std::string prompt = "";  // empty: none is written
  int64_t bytes = 200;
  double temperature = 0.8;  // 0: the most probable token
  int64_t top_k = 0;         // 0: all tokens
};

struct ProgramConfig {
  ModelConfig model = {};
  DataConfig data = {};  // shape and vocabulary come from the model later
  OptimizerConfig optimizer = {};
  int64_t steps = 0;
  int64_t global_batch = 0;
  int64_t micro_batch = 0;  // most samples computed at once; 0: no bound
  Precision precision = Precision::kFloat32;
  uint64_t seed = 1;
  int64_t evaluate_every = 0;      // 0: only at the end
  int64_t evaluation_samples = 0;  // 0: all held-out samples
  int64_t bucket_bytes = 0;
  int64_t hash_every = 0;  // 0: only at the end
  CheckpointConfig checkpoint = {};
  std::string initial_parameters = "";  // a path; empty: random ones
  SampleConfig sample = {};
  // The job fails once this many updates in a row were left out because the
  // gradient was not finite.
  int64_t max_skipped_in_a_row = 20;
  CollectiveConfig collective = {};  // of the gradients' all-reduces
  EmulationConfig emulation = {};    // off: the model computes
  // The rules of servers that update the parameters; none: an all-reduce.
  std::optional<UpdateRules> parameter_server = std::nullopt;

  // Returns true if parameters are updated with every rank's gradient at once,
  // so that all ranks hold the same after every step.
  [[nodiscard]] bool is_synchronous() const {
    return !parameter_server.has_value() || parameter_server->is_synchronous;
  }

  // Returns what ranks must agree on besides model, layout and data; for Plan's
  // settings.
  std::string CanonicalText() const;
};

// Translates a program whose defaults are filled in, and validates it again: a
// worker does not rely on its coordinator. The model's own settings are for
// CreateModel to check. `default_precision` is that of the device.
//   INVALID_ARGUMENT  names the field
[[nodiscard]] absl::StatusOr<ProgramConfig> ParseProgram(
    const v1::TrainProgram& program,
    Precision default_precision = Precision::kFloat32);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_PROGRAM_CONFIG_H_
