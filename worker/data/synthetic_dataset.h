// The synthetic data set: windows that follow a hidden rule, made from (seed,
// sample) alone; it needs no file.
//
// Tokens lie in [0, 64). Each is the successor of the one before under a secret
// permutation with probability 7/8, and any of the 64 otherwise. A model that
// has found the rule has a cross entropy of about 0.9 nats; one that knows only
// the tokens' frequencies, ln 64 = 4.16.
#ifndef RINGMASTER_WORKER_DATA_SYNTHETIC_DATASET_H_
#define RINGMASTER_WORKER_DATA_SYNTHETIC_DATASET_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/data/dataset.h"

namespace ringmaster {

// Leaves at least one sample for training. Requires a valid config of kind
// synthetic.
//   INVALID_ARGUMENT  the model takes fewer than 64 tokens
[[nodiscard]] absl::StatusOr<std::unique_ptr<Dataset>> CreateSyntheticDataset(
    const DataConfig& config);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_SYNTHETIC_DATASET_H_
