// Dataset gives samples by number: sample `id` of a split is always the same
// input and targets, but for what is drawn anew in each epoch.
//
// Guarantees: contents are fixed once created. FillBatch does not allocate,
// unless it has to decode.
// Thread-safety: immutable, so thread-safe.
// Example:
//   ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset, CreateDataset(config));
//   Batch batch(/*capacity=*/64, config.shape);
//   RETURN_IF_ERROR(dataset->FillBatch(Split::kTrain, ids, batch));
#ifndef RINGMASTER_WORKER_DATA_DATASET_H_
#define RINGMASTER_WORKER_DATA_DATASET_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/transport/cancel_token.h"
#include "ringmaster/v1/data_identity.pb.h"
#include "worker/data/batch.h"
#include "worker/data/data_config.h"

namespace ringmaster {

enum class Split { kTrain, kHeldOut };

class Dataset {
 public:
  virtual ~Dataset() = default;

  // Number of samples of a split; ids are [0, size). The held-out split may be
  // empty.
  virtual int64_t size(Split split) const = 0;
  virtual const SampleShape& shape() const = 0;
  // Samples that were left out because they are not valid.
  virtual int64_t skipped_samples() const { return 0; }
  // Returns true if FillBatch decodes samples, which may take seconds. The same on
  // all ranks.
  virtual bool decodes() const { return false; }
  // Hash of the contents, wherever they are stored: equal data is equal,
  // different data is different (64 bits). For contents that are read during
  // training alone, names and sizes stand, and which samples were left out.
  virtual uint64_t fingerprint() const = 0;
  // The files that it was read from; without parts if there were none.
  virtual v1::DataIdentity identity() const { return {}; }

  // Makes `batch` hold the samples `ids`, in that order.
  //   INVALID_ARGUMENT  an id outside [0, size), more ids than the batch has
  //                     room for, or another shape
  //   else              a sample that is decoded only now is not valid
  [[nodiscard]] virtual absl::Status FillBatch(Split split,
                                               absl::Span<const int64_t> ids,
                                               Batch& batch) const = 0;
  // As FillBatch of training samples, in the epochs (from 0) `epochs`, which are
  // as many as `ids`.
  [[nodiscard]] virtual absl::Status FillTraining(
      absl::Span<const int64_t> ids, absl::Span<const int64_t> /*epochs*/,
      Batch& batch) const {
    return FillBatch(Split::kTrain, ids, batch);
  }
};

// Opens the data set that `config` describes. Every error is one line that
// names the field or the path.
//   INVALID_ARGUMENT     the config is not valid; the path is neither a file
//                        nor a directory, or holds more than max_bytes; a file
//                        is malformed; the data does not fit the model: its
//                        images' size, the tokenizer's vocabulary, or a record
//                        with a label or a token that the model does not take
//                        (unless such records are to be skipped)
//   NOT_FOUND            nothing is at the path
//   PERMISSION_DENIED    something at the path may not be read
//   DATA_LOSS            a compressed file is damaged
//   FAILED_PRECONDITION  there is less data than one training sample, or than
//                        one to evaluate on where that is needed
//   RESOURCE_EXHAUSTED   there is no memory to decode a file with
//   ABORTED              `cancel`, which may be null, was cancelled: within
//                        milliseconds, however much there is to read, or once
//                        the pictures in hand are decoded
[[nodiscard]] absl::StatusOr<std::unique_ptr<Dataset>> CreateDataset(
    const DataConfig& config, const CancelToken* cancel = nullptr);

// For implementations of FillBatch: checks the request, sets the batch's size
// and sample_ids.
[[nodiscard]] absl::Status PrepareBatch(const Dataset& dataset, Split split,
                                        absl::Span<const int64_t> ids,
                                        Batch& batch);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_DATASET_H_
