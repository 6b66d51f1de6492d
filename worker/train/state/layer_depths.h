// LayerDepths tells how deep in the model each tensor lies, from the output.
//
// A tensor's layer is what its name begins with, up to its first number:
// "transformer.h.3" of "transformer.h.3.mlp.c_fc.weight". Tensors without a number
// that come before the first layer in the plan's order, which is that of the backward
// pass, are the head and have depth 0; the last layer has depth 1, the one before 2,
// and tensors without a number behind the layers, as embeddings, are one deeper than
// the first layer. (As BEiT and ELECTRA decay learning rates.) Running
// statistics have depth 0 and count for no layer.
#ifndef RINGMASTER_WORKER_TRAIN_STATE_LAYER_DEPTHS_H_
#define RINGMASTER_WORKER_TRAIN_STATE_LAYER_DEPTHS_H_

#include <vector>

#include "absl/types/span.h"
#include "common/plan/plan.h"

namespace ringmaster {

// Pure. One depth for each tensor.
[[nodiscard]] std::vector<int> LayerDepths(
    absl::Span<const PlannedTensor> tensors);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STATE_LAYER_DEPTHS_H_
