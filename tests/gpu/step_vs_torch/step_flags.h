// The flags of programs that train a model of our_models.h in rounds.
#ifndef RINGMASTER_TESTS_GPU_STEP_VS_TORCH_STEP_FLAGS_H_
#define RINGMASTER_TESTS_GPU_STEP_VS_TORCH_STEP_FLAGS_H_

#include <cstdint>
#include <string>

#include "common/config/flags.h"

namespace ringmaster {

struct StepFlags {
  std::string model = {};
  int64_t batch = 0;
  int64_t steps = 0;
  std::string precision = "bf16";
};

// Those of `flags` that are empty must be given. `flags` outlives `set`.
void AddStepFlags(FlagSet& set, StepFlags& flags);

}  // namespace ringmaster

#endif  // RINGMASTER_TESTS_GPU_STEP_VS_TORCH_STEP_FLAGS_H_
