// RunReference trains a whole job in one process, step by step and without
// overlap: the oracle that runs with any number of workers are compared with.
#ifndef RINGMASTER_WORKER_NN_TESTING_REFERENCE_RUN_H_
#define RINGMASTER_WORKER_NN_TESTING_REFERENCE_RUN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/optimizer/optimizer_config.h"
#include "common/plan/plan.h"
#include "worker/data/data_config.h"
#include "worker/nn/model_config.h"

namespace ringmaster {

struct ReferenceJob {
  ModelConfig model = {};
  DataConfig data = {};  // shape and vocabulary are the model's
  OptimizerConfig optimizer = {};
  int64_t global_batch = 256;
  uint64_t seed = 1;  // of the first parameters
};

template <typename T>
struct ReferenceResult {
  // In the layout of Plan::Create(model.kind, specs, any options): offsets do
  // not depend on bucket size or dtype.
  std::vector<T> parameters;
  std::vector<double> losses;  // mean loss of each step, before its update;
                               // losses[0] is step 1's
};

// Runs steps 1..max(`steps`) and returns the state after each of `steps`
// (ascending; 0 is the initial state). T is float or double. Errors are those
// of the configs and the data set.
template <typename T>
[[nodiscard]] absl::StatusOr<std::vector<ReferenceResult<T>>> RunReference(
    const ReferenceJob& job, absl::Span<const int64_t> steps);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_TESTING_REFERENCE_RUN_H_
