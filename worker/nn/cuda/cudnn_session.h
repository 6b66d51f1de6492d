// CudnnSession is cuDNN on one stream: its handle, and the scratch that plans
// share. It grows when a plan is made that wants more, for which the stream is
// waited for, and graphs of the stream expire.
//
// Thread-safety: thread-compatible; all calls are queued on one stream.
// Ownership: device and stream must outlive it, and it its plans.
#ifndef RINGMASTER_WORKER_NN_CUDA_CUDNN_SESSION_H_
#define RINGMASTER_WORKER_NN_CUDA_CUDNN_SESSION_H_

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tensor/allocator.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/device/cuda/cudnn_library.h"
#include "worker/nn/cuda/cudnn_graph.h"

namespace ringmaster::cuda {

// Whose kernels compute what both cuDNN and we have.
enum class KernelChoice {
  kOurs,
  kCudnn,  // ours where cuDNN has no plan
  kAuto,   // the same, and ours if there is no cuDNN
};

// Of each Real tensor the address.
using CudnnAddresses = std::vector<std::pair<int64_t, void*>>;

class CudnnSession {
 public:
  // Null for kOurs, and for kAuto if cuDNN cannot be used, which is logged as
  // `event`. Otherwise
  //   NOT_FOUND, UNIMPLEMENTED  there is no cuDNN that this program can use
  //   INTERNAL                  it does not start
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudnnSession>> Create(
      KernelChoice choice, const char* event, CudaDevice& device,
      CudaStream& stream);
  CudnnSession(const CudnnSession&) = delete;
  ~CudnnSession();

  [[nodiscard]] const CudnnLibrary& library() const { return library_; }
  // Whether a plan may be made now: not during a stream capture, since that loads
  // kernels and allocates memory.
  [[nodiscard]] bool CanCompile();
  // Whether the addresses are as aligned as graphs promise of them.
  [[nodiscard]] static bool AreAligned(const CudnnAddresses& tensors);
  // A plan, and scratch for it.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<CudnnPlan>> Compile(
      CudnnGraph graph, const CudnnPlanOptions& options);
  // Queues the plan; UNIMPLEMENTED: it turns out that it cannot be run.
  [[nodiscard]] absl::Status Run(CudnnPlan& plan,
                                 const CudnnAddresses& tensors);
  [[nodiscard]] CudaStream& stream() { return stream_; }

 private:
  CudnnSession(CudaDevice& device, CudaStream& stream, CudnnLibrary library)
      : device_(device), stream_(stream), library_(std::move(library)) {}
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudnnSession>> Start(
      CudaDevice& device, CudaStream& stream);
  // Makes the scratch at least as large.
  [[nodiscard]] absl::Status Grow(int64_t workspace_bytes);

  CudaDevice& device_;
  CudaStream& stream_;
  const CudnnLibrary library_;
  cudnnHandle_t handle_ = nullptr;
  Allocation workspace_;
};

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_CUDNN_SESSION_H_
