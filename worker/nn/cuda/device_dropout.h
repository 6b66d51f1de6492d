// DeviceDropout is Dropout (worker/nn/compute.h) as operators on a GPU are given it:
// what changes from one pass to the next lies in device memory, where a graph that
// was captured once finds it at each launch.
//
// Thread-safety: a value.
#ifndef RINGMASTER_WORKER_NN_CUDA_DEVICE_DROPOUT_H_
#define RINGMASTER_WORKER_NN_CUDA_DEVICE_DROPOUT_H_

#include <cstdint>

namespace ringmaster::cuda {

// Dropout::key is CounterRandom(*pass_key, site). A rate of 0 drops nothing, and
// the other members are then unused.
struct DeviceDropout {
  double rate = 0;                     // in [0, 1)
  const uint64_t* pass_key = nullptr;  // in device memory
  uint64_t site = 0;
  const int64_t* sample_ids = nullptr;  // in device memory
  int64_t elems_per_sample = 0;
};

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_DEVICE_DROPOUT_H_
