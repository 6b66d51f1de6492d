// ApplyOptimizer updates parameters on a GPU with the optimizer that the config
// names, by the formulas of common/optimizer/adamw.h and sgd.h.
//
// Guarantees: every element's arithmetic is that of a CPU, operation by operation
// and rounded alike (no fused multiply-add), so an element's result depends on
// that element alone and has the same bits on every device.
// Thread-safety: as CudaStream; errors are the stream's. Stretches with and
// without weight decay are updated one after another, see DecaysWeights.
#ifndef RINGMASTER_WORKER_TRAIN_CUDA_OPTIMIZER_H_
#define RINGMASTER_WORKER_TRAIN_CUDA_OPTIMIZER_H_

#include "common/optimizer/optimizer_config.h"
#include "common/optimizer/update.h"
#include "worker/device/cuda/cuda_stream.h"

namespace ringmaster::cuda {

// Queues `update` of `slice`, all of whose spans lie in device memory. Requires a
// valid config.
void ApplyOptimizer(CudaStream& stream, const OptimizerConfig& config,
                    const Update& update, const OptimizerSlice<float>& slice);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_TRAIN_CUDA_OPTIMIZER_H_
