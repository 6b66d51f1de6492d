// ReadHuggingFaceConfig understands the config.json of a model in Hugging
// Face's layout: the inverse of Model::HuggingFaceConfig.
//
// Thread-safety: pure.
#ifndef RINGMASTER_WORKER_NN_HUGGING_FACE_CONFIG_H_
#define RINGMASTER_WORKER_NN_HUGGING_FACE_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "worker/nn/model_config.h"

namespace ringmaster {

// The model_type is gpt2, llama, bert or roberta. What a model of ours computes
// otherwise than the config says (scaled positions, biases, another activation)
// is refused.
//   INVALID_ARGUMENT  `text` is no such config; the message names the key
[[nodiscard]] absl::StatusOr<ModelConfig> ReadHuggingFaceConfig(
    const std::string& text);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_HUGGING_FACE_CONFIG_H_
