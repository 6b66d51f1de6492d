// Captured is what an operator queues, as a CUDA graph: for tests that an
// operator, whose shapes were seen before, neither waits nor allocates.
//
// Thread-safety: thread-compatible.
// Example:
//   Captured captured(stream(), [&] { Scale(stream(), ...); });
//   captured.Launch();
//   ASSERT_TRUE(Finish());
#ifndef RINGMASTER_WORKER_NN_CUDA_TESTING_CAPTURED_H_
#define RINGMASTER_WORKER_NN_CUDA_TESTING_CAPTURED_H_

#include <cuda_runtime_api.h>

#include "absl/functional/function_ref.h"
#include "gtest/gtest.h"
#include "worker/device/cuda/cuda_stream.h"

namespace ringmaster::cuda {

class Captured {
 public:
  // Runs `queue`; the stream keeps the work that it queues for Launch. The test
  // fails on whatever a graph cannot hold, and in global mode also on whatever
  // may keep a device waiting, as cudaMalloc does.
  Captured(CudaStream& stream, absl::FunctionRef<void()> queue,
           cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal)
      : stream_(stream) {
    EXPECT_EQ(cudaStreamBeginCapture(stream_.get(), mode), cudaSuccess);
    queue();
    EXPECT_TRUE(stream_.status().ok()) << stream_.status();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_.get(), &graph), cudaSuccess);
    if (graph == nullptr) return;
    EXPECT_EQ(cudaGraphInstantiate(&graph_, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  Captured(const Captured&) = delete;
  ~Captured() {
    EXPECT_EQ(cudaStreamSynchronize(stream_.get()), cudaSuccess);
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  }
  void Launch() {
    EXPECT_EQ(cudaGraphLaunch(graph_, stream_.get()), cudaSuccess);
  }

 private:
  CudaStream& stream_;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_TESTING_CAPTURED_H_
