// ProgramConfig is a training program in the engine's own terms, taken from the
// job's proto.
//
// Thread-safety: a value.
#ifndef RINGMASTER_WORKER_TRAIN_PROGRAM_CONFIG_H_
#define RINGMASTER_WORKER_TRAIN_PROGRAM_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/optimizer/optimizer_config.h"
#include "worker/data/data_config.h"
#include "worker/nn/model_config.h"

namespace ringmaster {

namespace v1 {
class TrainProgram;
}  // namespace v1

struct ProgramConfig {
  ModelConfig model;
  DataConfig data;
  OptimizerConfig optimizer;
  int64_t steps = 0;
  int64_t global_batch = 0;
  uint64_t seed = 1;
  int64_t evaluate_every = 0;      // 0: only at the end
  int64_t evaluation_samples = 0;  // 0: all held-out samples
  int64_t bucket_bytes = 0;
  int64_t hash_every = 0;  // 0: only at the end

  // What ranks must agree on beside model, layout and data; for Plan's
  // settings.
  std::string CanonicalText() const;
};

// Translates a program whose defaults are filled in, and validates it again: a
// worker does not rely on its coordinator.
//   INVALID_ARGUMENT  names the field
[[nodiscard]] absl::StatusOr<ProgramConfig> ParseProgram(
    const v1::TrainProgram& program);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_PROGRAM_CONFIG_H_
