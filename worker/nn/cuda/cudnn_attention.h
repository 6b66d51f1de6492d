// CudnnAttention computes causal self-attention by cuDNN: the same as
// attention.h, several times faster where there are tensor cores.
//
// A plan is made for each shape and type that is met, which takes a second or
// two, and kept. Where cuDNN has none, that is logged once
// (attention.no_cudnn_plan), and the caller computes with attention.h instead:
// what either's forward gives suits the other's backward.
//
// Guarantees: results do not depend on timing: plans that add up in any order are
// refused.
// Thread-safety: thread-compatible; all calls are queued on one stream.
// Ownership: device and stream must outlive it.
#ifndef RINGMASTER_WORKER_NN_CUDA_CUDNN_ATTENTION_H_
#define RINGMASTER_WORKER_NN_CUDA_CUDNN_ATTENTION_H_

#include <cudnn.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tensor/allocator.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/device/cuda/cudnn_library.h"
#include "worker/nn/attention.h"
#include "worker/nn/cuda/cudnn_graph.h"

namespace ringmaster::cuda {

// Whose kernels compute attention.
enum class AttentionKernels {
  kOurs,
  kCudnn,  // ours where cuDNN has no plan
  kAuto,   // the same, and ours if there is no cuDNN
};

class CudnnAttention {
 public:
  // For calls on `stream`. Null for kOurs, and for kAuto if cuDNN cannot be
  // used, which is logged (attention.no_cudnn). Otherwise
  //   NOT_FOUND, UNIMPLEMENTED  there is no cuDNN that this program can use
  //   INTERNAL                  it does not start
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudnnAttention>> Create(
      AttentionKernels kernels, CudaDevice& device, CudaStream& stream);
  CudnnAttention(const CudnnAttention&) = delete;
  ~CudnnAttention();

  // Queues what AttentionForward does without dropout, and returns true; or
  // does nothing and returns false: it cannot be done by cuDNN. T is
  // __nv_bfloat16 or __half. Errors are the stream's.
  template <typename T>
  bool Forward(AttentionShape shape, const T* qkv, T* out, float* log_sum_exp);
  // The same for AttentionBackward.
  template <typename T>
  bool Backward(AttentionShape shape, const T* dout, const T* qkv, const T* out,
                const float* log_sum_exp, float* scratch, T* dqkv);

 private:
  struct Key {
    bool is_backward;
    cudnnDataType_t type;
    int64_t samples;
    int64_t window;
    int64_t heads;
    int64_t head_dim;
    auto operator<=>(const Key&) const = default;
  };

  CudnnAttention(CudaDevice& device, CudaStream& stream, CudnnLibrary library)
      : device_(device), stream_(stream), library_(std::move(library)) {}
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudnnAttention>> Start(
      CudaDevice& device, CudaStream& stream);
  bool Run(const Key& key, AttentionShape shape,
           const std::vector<std::pair<int64_t, void*>>& tensors);
  // Null: there is none.
  CudnnPlan* PlanOf(const Key& key, AttentionShape shape);
  // Makes the scratch at least as large.
  [[nodiscard]] absl::Status Grow(int64_t workspace_bytes);

  CudaDevice& device_;
  CudaStream& stream_;
  const CudnnLibrary library_;
  cudnnHandle_t handle_ = nullptr;
  Allocation workspace_;
  std::map<Key, std::unique_ptr<CudnnPlan>> plans_;
};

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_CUDNN_ATTENTION_H_
