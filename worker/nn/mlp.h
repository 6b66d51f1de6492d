// The model `mlp`: predicts the byte that follows a window of bytes.
//
//   window of token ids [B,W] -> embedding (256 x E) -> concatenation [B,W*E]
//     -> hidden_layers times: linear to [B,H], GELU -> linear to logits [B,256]
//     -> cross entropy
#ifndef RINGMASTER_WORKER_NN_MLP_H_
#define RINGMASTER_WORKER_NN_MLP_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/nn/model.h"
#include "worker/nn/model_config.h"

namespace ringmaster {

// Settings: window (16), embedding_dim (32), hidden_dim (256), hidden_layers (2).
//   INVALID_ARGUMENT    a setting is out of bounds
//   RESOURCE_EXHAUSTED  there is no memory for the buffers
// Requires max_batch >= 0.
template <typename T>
[[nodiscard]] absl::StatusOr<std::unique_ptr<Model<T>>> CreateMlp(
    const ModelConfig& config, const Compute& compute, int64_t max_batch);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_MLP_H_
