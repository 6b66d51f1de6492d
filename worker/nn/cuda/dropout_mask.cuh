// worker/nn/dropout_mask.h for kernels: the same elements are dropped as on a
// CPU.
//
// For .cu files alone.
#ifndef RINGMASTER_WORKER_NN_CUDA_DROPOUT_MASK_CUH_
#define RINGMASTER_WORKER_NN_CUDA_DROPOUT_MASK_CUH_

#include <cstdint>

#include "worker/device/cuda/kernel.cuh"
#include "worker/nn/compute.h"
#include "worker/nn/dropout_mask.h"

namespace ringmaster::cuda {

// A Dropout as kernels are given it: without arithmetic in double.
struct DropoutKey {
  uint64_t key = 0;
  const int64_t* sample_ids = nullptr;  // in device memory
  uint32_t threshold = 0;               // rate * 2^32; 0 keeps everything
  float scale = 1;                      // 1 / (1 - rate)
};

inline DropoutKey DropoutKeyOf(const Dropout& dropout) {
  return {dropout.key, dropout.sample_ids, DropoutThreshold(dropout),
          static_cast<float>(DropoutScale(dropout))};
}

// The mask of the sample at place `sample` of the batch; see IsKept.
__device__ inline DropoutMask DropoutMaskOf(const DropoutKey& dropout,
                                            int64_t sample) {
  if (dropout.threshold == 0) return {};
  return ringmaster::DropoutMaskOf(dropout.key, dropout.sample_ids[sample],
                                   dropout.threshold);
}

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_DROPOUT_MASK_CUH_
