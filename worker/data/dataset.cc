#include "worker/data/dataset.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "worker/data/image_dataset.h"
#include "worker/data/image_folder_dataset.h"
#include "worker/data/labelled_text_dataset.h"
#include "worker/data/synthetic_dataset.h"
#include "worker/data/text_dataset.h"
#include "worker/data/token_file_dataset.h"

namespace ringmaster {
namespace {

std::string ShapeText(const SampleShape& shape) {
  return absl::StrCat(shape.tokens, " tokens, ", shape.pixels, " pixels and ",
                      shape.targets, " targets");
}

absl::StatusOr<std::unique_ptr<Dataset>> CreateOfKind(
    const DataConfig& config, const CancelToken* cancel) {
  if (config.kind == "text") return CreateTextDataset(config, cancel);
  if (config.kind == "tokens") return CreateTokenFileDataset(config, cancel);
  if (config.kind == "images") return CreateImageDataset(config, cancel);
  if (config.kind == "image_folder")
    return CreateImageFolderDataset(config, cancel);
  if (config.kind == "labelled_text")
    return CreateLabelledTextDataset(config, cancel);
  return CreateSyntheticDataset(config);
}

// Checks that a data set may be without held-out samples.
absl::Status CheckNeedsNoneHeldOut(const DataConfig& config) {
  if (!config.evaluation_path.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("data.evaluation_path: ", config.evaluation_path,
                     " holds no whole valid sample (", ShapeText(config.shape),
                     ") to evaluate on"));
  }
  if (!config.needs_held_out) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "data.eval_fraction: evaluations are wanted, but ", config.eval_fraction,
      " of the data holds no whole valid sample (", ShapeText(config.shape),
      "); hold out more, or use more data"));
}

}  // namespace

absl::Status PrepareBatch(const Dataset& dataset, Split split,
                          absl::Span<const int64_t> ids, Batch& batch) {
  const int64_t count = static_cast<int64_t>(ids.size());
  if (count > batch.capacity()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot put ", count,
                     " samples into a batch with room for ", batch.capacity()));
  }
  if (batch.shape() != dataset.shape()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch of samples with ", ShapeText(batch.shape()),
                     " does not fit a data set of samples with ",
                     ShapeText(dataset.shape())));
  }
  const int64_t size = dataset.size(split);
  batch.Resize(count);
  for (int64_t i = 0; i < count; ++i) {
    if (ids[i] < 0 || ids[i] >= size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "there is no sample ", ids[i], " in a split of ", size, " samples"));
    }
    batch.mutable_sample_ids()[i] = ids[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Dataset>> CreateDataset(
    const DataConfig& config, const CancelToken* cancel) {
  RETURN_IF_ERROR(config.Validate());
  ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset,
                   CreateOfKind(config, cancel));
  if (dataset->size(Split::kHeldOut) == 0)
    RETURN_IF_ERROR(CheckNeedsNoneHeldOut(config));
  return dataset;
}

}  // namespace ringmaster
