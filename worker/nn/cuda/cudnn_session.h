// CudnnSession is cuDNN on one stream: its handle, and the scratch that plans
// share. The scratch grows when a new plan wants more, which waits for the
// stream and makes its graphs expire.
//
// Thread-safety: thread-compatible; all calls are queued on one stream.
// Ownership: device and stream must outlive it, and it must outlive its plans.
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

// The choice of kernels for operators that both cuDNN and we have.
enum class KernelChoice {
  kOurs,
  kCudnn,  // ours where cuDNN has no plan
  kAuto,   // the same, and ours if there is no cuDNN
};

// The id and address of each Real tensor.
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
  // Returns true if a plan may be made now: not during a stream capture, since
  // making one loads kernels and allocates memory.
  [[nodiscard]] bool CanCompile();
  // Returns true if the addresses are as aligned as graphs promise.
  [[nodiscard]] static bool AreAligned(const CudnnAddresses& tensors);
  // Makes a plan, and scratch for it, with `more_bytes` behind the plan's own;
  // MoreScratch() returns their address.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<CudnnPlan>> Compile(
      CudnnGraph graph, const CudnnPlanOptions& options,
      int64_t more_bytes = 0);
  [[nodiscard]] void* MoreScratch(const CudnnPlan& plan) const;
  // Queues the plan. UNIMPLEMENTED: it turns out that it cannot be run.
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
