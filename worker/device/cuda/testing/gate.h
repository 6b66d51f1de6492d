// Gate holds up work that is queued on a stream behind it.
//
// Thread-safety: thread-safe.
// Ownership: must outlive the work that it was queued in, including each launch
// of a graph.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_TESTING_GATE_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_TESTING_GATE_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <thread>

#include "worker/device/cuda/cuda_stream.h"

namespace ringmaster {

class Gate {
 public:
  explicit Gate(bool is_open = false) : is_open_(is_open) {}

  // Makes work queued from here on wait while the gate is shut.
  void Hold(CudaStream& stream) {
    stream.Check(cudaLaunchHostFunc(
                     stream.get(),
                     [](void* is_open) {
                       while (!*static_cast<std::atomic<bool>*>(is_open))
                         std::this_thread::yield();
                     },
                     &is_open_),
                 "a gate");
  }
  void Set(bool is_open) { is_open_ = is_open; }

 private:
  std::atomic<bool> is_open_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_TESTING_GATE_H_
