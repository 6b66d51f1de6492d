// The data set of tokens that were made beforehand: a .bin file (token_file.h),
// or all files right in a directory whose names end in ".bin", in the order of
// their names.
//
// Samples are window_dataset.h's. Files that evaluation_path names are not
// training data, even if they are in the directory of the others. Files are
// read once at creation, to check and hash them, and stay mapped: they may be
// larger than memory, and must not be changed meanwhile.
#ifndef RINGMASTER_WORKER_DATA_TOKEN_FILE_DATASET_H_
#define RINGMASTER_WORKER_DATA_TOKEN_FILE_DATASET_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/data/dataset.h"

namespace ringmaster {

// Errors are listed at CreateDataset. Requires a valid config of kind tokens.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Dataset>> CreateTokenFileDataset(
    const DataConfig& config, const CancelToken* cancel);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_TOKEN_FILE_DATASET_H_
