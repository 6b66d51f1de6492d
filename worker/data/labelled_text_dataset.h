// The labelled-text data set: records of one or two texts and a class, in a CSV
// file or one of JSON objects (labelled_records.h), as BERT or RoBERTa sees
// them.
//
//   BERT     [CLS] text [SEP], or [CLS] text [SEP] second text [SEP]
//   RoBERTa  <s> text </s>, or <s> text </s> </s> second text </s>
// and then padding. A text that is too long is cut at its end, of two texts the
// longer one first. All of it is read into memory at creation.
#ifndef RINGMASTER_WORKER_DATA_LABELLED_TEXT_DATASET_H_
#define RINGMASTER_WORKER_DATA_LABELLED_TEXT_DATASET_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/transport/cancel_token.h"
#include "worker/data/data_config.h"
#include "worker/data/dataset.h"

namespace ringmaster {

// Errors are listed at CreateDataset. Requires a valid config of kind
// labelled_text.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Dataset>>
CreateLabelledTextDataset(const DataConfig& config, const CancelToken* cancel);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_LABELLED_TEXT_DATASET_H_
