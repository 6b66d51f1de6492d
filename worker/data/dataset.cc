#include "worker/data/dataset.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "worker/data/synthetic_dataset.h"
#include "worker/data/text_dataset.h"

namespace ringmaster {
namespace {

std::string ShapeText(const SampleShape& shape) {
  return absl::StrCat(shape.tokens, " tokens, ", shape.pixels, " pixels and ",
                      shape.targets, " targets");
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
  if (config.kind == "text") return CreateTextDataset(config, cancel);
  if (config.kind == "synthetic") return CreateSyntheticDataset(config);
  return absl::UnimplementedError(
      absl::StrCat("data.kind ", config.kind, " cannot be read yet"));
}

}  // namespace ringmaster
