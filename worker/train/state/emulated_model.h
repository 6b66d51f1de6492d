// A model that takes as long as another but computes nothing: for comparing how
// ranks exchange gradients when there are more ranks than cores.
#ifndef RINGMASTER_WORKER_TRAIN_STATE_EMULATED_MODEL_H_
#define RINGMASTER_WORKER_TRAIN_STATE_EMULATED_MODEL_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "worker/nn/model.h"

namespace ringmaster {

// The durations to emulate; nothing is emulated if both are 0.
struct EmulationConfig {
  absl::Duration forward;   // of a sample
  absl::Duration backward;  // of a sample
  // By bucket: the moment when its gradients are final, in thousandths of the
  // backward pass. Buckets that are not in it are spread evenly.
  std::vector<int> ready_permille = {};

  [[nodiscard]] bool is_on() const {
    return forward > absl::ZeroDuration() || backward > absl::ZeroDuration();
  }
};

// ForwardBackward waits on `clock`, reports gradients bucket by bucket, and
// returns the loss 0; gradients are zeros from the first Bind on, and sums keep
// them so. A cancelled ForwardBackward returns within 50 ms. All else is
// `model`'s, except its arithmetic: flops_per_sample is 0.
[[nodiscard]] std::unique_ptr<Model<float>> EmulateCompute(
    std::unique_ptr<Model<float>> model, EmulationConfig config, Clock& clock);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STATE_EMULATED_MODEL_H_
