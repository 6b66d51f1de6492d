// The text data set: a file, or all files of a directory tree, as one sequence
// of bytes; these are the tokens, or are encoded with GPT-2's tokenizer.
//
// Samples are window_dataset.h's, with all of the text as one file. Files of a
// tree are joined in the order defined in list_files.h, with nothing between
// them. All of it is read into memory at creation.
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
