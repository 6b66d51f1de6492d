#include "worker/data/dataset.h"

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "worker/data/synthetic_dataset.h"
#include "worker/data/text_dataset.h"

namespace ringmaster {

absl::Status PrepareBatch(const Dataset& dataset, Split split,
                          absl::Span<const int64_t> ids, Batch& batch) {
  const int64_t count = static_cast<int64_t>(ids.size());
  if (count > batch.capacity()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot put ", count,
                     " samples into a batch with room for ", batch.capacity()));
  }
  if (batch.window() != dataset.window()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a batch with window ", batch.window(),
        " does not fit a data set with window ", dataset.window()));
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
  return CreateSyntheticDataset(config);
}

}  // namespace ringmaster
