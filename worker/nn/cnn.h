// The model `cnn`: tells the class of an image.
//
//   pixels [B,height,width,channels] / 255
//     -> for each of `filters`: 3x3 convolution, ReLU, 2x2 max pooling
//     -> flattened as it lies: line, column, channel
//     -> linear to [B,hidden_dim], ReLU -> linear to logits [B,classes]
//     -> cross entropy
//
// Tensors are conv.N.weight [filters,3,3,channels], hidden.weight, output.weight
// ([out,in], as in PyTorch's Linear) and a bias of each. With
// Precision::kBFloat16 convolutions still multiply floats.
#ifndef RINGMASTER_WORKER_NN_CNN_H_
#define RINGMASTER_WORKER_NN_CNN_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/nn/model.h"
#include "worker/nn/model_config.h"

namespace ringmaster {

// Settings: height (28), width (28), channels (1), classes (10), filters (32,
// 64), hidden_dim (128).
//   INVALID_ARGUMENT    a setting is out of bounds, or the image is too small to
//                       be halved once for each of `filters`
//   RESOURCE_EXHAUSTED  there is no memory for the buffers
// Requires max_batch >= 0.
template <typename T>
[[nodiscard]] absl::StatusOr<std::unique_ptr<Model<T>>> CreateCnn(
    const ModelConfig& config, const Compute& compute, int64_t max_batch);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_CNN_H_
