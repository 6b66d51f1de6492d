// The model `gpt`: a language model with the architecture of GPT-2 (Radford et
// al., "Language Models are Unsupervised Multitask Learners", 2019). Predicts
// the token after each of a window of tokens.
//
//   token ids [B,W] -> tokens + positions -> blocks -> layer norm
//     -> logits by the transposed token embedding -> cross entropy
//   block: x += attention(norm(x)); x += mlp(norm(x))
//
// Tensors have Hugging Face's names and shapes, so that its GPT2LMHeadModel
// reads them. Dropout, while training, is where GPT-2 has it: on the embedding,
// on the attention's probabilities, and on what is added to x.
// flops_per_sample: for each token, 6 for each parameter that is a factor of a
// product, and 6 * layers * width * sample_tokens for the attention's products, of
// which the half that a causal mask leaves is counted.
#ifndef RINGMASTER_WORKER_NN_GPT_H_
#define RINGMASTER_WORKER_NN_GPT_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/nn/model.h"
#include "worker/nn/model_config.h"

namespace ringmaster {

// Settings: vocabulary (256), window (256), layers (4), heads (4), width (128),
// a multiple of heads, dropout (0), sample_tokens (window): a sample may be
// shorter than what the model can see.
//   INVALID_ARGUMENT    a setting is out of bounds
//   RESOURCE_EXHAUSTED  there is no memory for the buffers
// Requires max_batch >= 0.
template <typename T>
[[nodiscard]] absl::StatusOr<std::unique_ptr<Model<T>>> CreateGpt(
    const ModelConfig& config, const Compute& compute, int64_t max_batch);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_GPT_H_
