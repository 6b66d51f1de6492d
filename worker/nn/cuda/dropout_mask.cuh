// worker/nn/dropout_mask.h for kernels: the same elements are dropped as on a
// CPU.
//
// For .cu files alone.
#ifndef RINGMASTER_WORKER_NN_CUDA_DROPOUT_MASK_CUH_
#define RINGMASTER_WORKER_NN_CUDA_DROPOUT_MASK_CUH_

#include <cstdint>

#include "common/plan/counter_random.h"
#include "worker/device/cuda/kernel.cuh"
#include "worker/nn/compute.h"
#include "worker/nn/cuda/device_dropout.h"
#include "worker/nn/dropout_mask.h"

namespace ringmaster::cuda {

// A DeviceDropout as kernels are given it: without arithmetic in double.
struct DropoutKey {
  const uint64_t* pass_key = nullptr;  // in device memory
  uint64_t site = 0;
  const int64_t* sample_ids = nullptr;  // in device memory
  uint32_t threshold = 0;               // rate * 2^32; 0 keeps everything
  float scale = 1;                      // 1 / (1 - rate)
};

inline DropoutKey DropoutKeyOf(const DeviceDropout& dropout) {
  const Dropout rate = {.rate = dropout.rate};
  return {dropout.pass_key, dropout.site, dropout.sample_ids,
          DropoutThreshold(rate), static_cast<float>(DropoutScale(rate))};
}

// The mask of the sample at place `sample` of the batch; see IsKept.
__device__ inline DropoutMask DropoutMaskOf(const DropoutKey& dropout,
                                            int64_t sample) {
  if (dropout.threshold == 0) return {};
  return ringmaster::DropoutMaskOf(
      CounterRandom(*dropout.pass_key, dropout.site),
      dropout.sample_ids[sample], dropout.threshold);
}

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_DROPOUT_MASK_CUH_
