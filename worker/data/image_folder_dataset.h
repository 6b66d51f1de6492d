// The image_folder data set: JPEG and PNG files in a subdirectory for each
// class. Creation lists them; they are read and decoded when a batch needs them.
//
// Guarantees: a sample's pixels are a function of its file, the seed and the
// epoch, on whatever rank and by however many threads.
// Thread-safety: thread-safe; one batch is decoded at a time.
#ifndef RINGMASTER_WORKER_DATA_IMAGE_FOLDER_DATASET_H_
#define RINGMASTER_WORKER_DATA_IMAGE_FOLDER_DATASET_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/transport/cancel_token.h"
#include "worker/data/data_config.h"
#include "worker/data/dataset.h"

namespace ringmaster {

// Errors are listed at CreateDataset. Requires a valid config of kind
// image_folder. With skip_corrupt every file is decoded once.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Dataset>> CreateImageFolderDataset(
    const DataConfig& config, const CancelToken* cancel);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_IMAGE_FOLDER_DATASET_H_
