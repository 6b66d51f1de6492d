// The model `bigram`: predicts each token from the one before it alone. The
// smallest model of text, and the example of docs/models.md.
//
//   token ids [B,W] -> embedding [B,W,E] -> logits [B,W,vocabulary]
//     -> cross entropy
#ifndef RINGMASTER_WORKER_NN_BIGRAM_H_
#define RINGMASTER_WORKER_NN_BIGRAM_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/nn/model.h"
#include "worker/nn/model_config.h"

namespace ringmaster {

// Settings: vocabulary (256), window (64), embedding_dim (32).
//   INVALID_ARGUMENT    a setting is out of bounds
//   RESOURCE_EXHAUSTED  there is no memory for the buffers
// Requires max_batch >= 0.
template <typename T>
[[nodiscard]] absl::StatusOr<std::unique_ptr<Model<T>>> CreateBigram(
    const ModelConfig& config, const Compute& compute, int64_t max_batch);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_BIGRAM_H_
