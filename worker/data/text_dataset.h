// The text data set: bytes of a file, or of all files of a directory tree, as
// one sequence.
//
// With one target, sample i is `tokens` bytes from byte i on, and the byte
// after them. With a target for each token, sample i is the bytes from i *
// tokens on, each followed by its target: either way, each byte is a target
// once an epoch (but for a tail too short for a sample).
// The last eval_fraction of the bytes is held out; no sample reaches across
// that border. Files of a tree are joined in the order of their relative paths
// (compared as bytes), so a tree reads the same on every host. Links to
// directories are not followed, and anything that is not a regular file is
// passed over. All of it is read into memory at creation.
#ifndef RINGMASTER_WORKER_DATA_TEXT_DATASET_H_
#define RINGMASTER_WORKER_DATA_TEXT_DATASET_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/data/dataset.h"

namespace ringmaster {

// Errors are listed at CreateDataset. Requires a valid config of kind text.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Dataset>> CreateTextDataset(
    const DataConfig& config, const CancelToken* cancel);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_TEXT_DATASET_H_
