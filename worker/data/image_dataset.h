// The data set of images with classes: MNIST's kind of files (idx_file.h).
//
// A sample is an image's pixels, and its label as target. The held-out samples
// are those of the evaluation files, or otherwise the last eval_fraction of the
// images. All of it is read into memory at creation.
#ifndef RINGMASTER_WORKER_DATA_IMAGE_DATASET_H_
#define RINGMASTER_WORKER_DATA_IMAGE_DATASET_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/data/dataset.h"

namespace ringmaster {

// Errors are listed at CreateDataset. Requires a valid config of kind images.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Dataset>> CreateImageDataset(
    const DataConfig& config, const CancelToken* cancel);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_IMAGE_DATASET_H_
