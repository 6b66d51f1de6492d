// The samples of a sequence of tokens, however the tokens are stored.
//
// A file of n tokens is divided into records. With one target, record i is
// `tokens` tokens from token i on, and the token after them; with a target for
// each token, it is the tokens from i * tokens on, each with its successor as
// target; so it is for a model that masks tokens, which is given no targets.
// Either way each token is a target once an epoch, except the first of
// a file and a tail that is too short for a record. No record reaches from one
// file into the next, or from the training part into the held-out part.
#ifndef RINGMASTER_WORKER_DATA_WINDOW_DATASET_H_
#define RINGMASTER_WORKER_DATA_WINDOW_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/transport/cancel_token.h"
#include "worker/data/data_identity.h"
#include "worker/data/dataset.h"

namespace ringmaster {

template <typename T>  // uint8_t, uint16_t or int32_t, not negative
struct TokenContents {
  struct File {
    std::string name;  // as errors call it
    absl::Span<const T> tokens;
    std::string path = "";
    int64_t size_bytes = 0;
  };
  std::vector<File> training;
  // Without it, the last eval_fraction of all training tokens is held out.
  std::vector<File> evaluation;
  // The files that the tokens were made from, if they are not those above, whose
  // contents are hashed as they are read.
  std::vector<HashedFile> sources;
  // Keeps the tokens alive.
  std::shared_ptr<const void> owner;
};

// Checks every token against config.vocabulary, reading them all once.
// `unit` is the name of tokens in errors: "bytes".
//   INVALID_ARGUMENT     a token is not below config.vocabulary, and such
//                        records are not to be skipped
//   FAILED_PRECONDITION  no training record is there, or left
//   ABORTED              `cancel`, which may be null, was cancelled
template <typename T>
[[nodiscard]] absl::StatusOr<std::unique_ptr<Dataset>> CreateWindowDataset(
    const DataConfig& config, const std::string& unit,
    TokenContents<T> contents, const CancelToken* cancel);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_WINDOW_DATASET_H_
