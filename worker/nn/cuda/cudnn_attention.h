// CudnnAttention computes causal self-attention by cuDNN: the same as
// attention.h, several times faster where there are tensor cores.
//
// A plan is made for each shape and type that is met, which takes a second or
// two, and kept. Where cuDNN has none, that is logged once
// (attention.no_cudnn_plan), and the caller computes with attention.h instead:
// what either's forward gives suits the other's backward.
//
// A fixed order of the gradient's sums takes scratch that grows with the square of the
// window; where a batch would take more than kMostScratchBytes, it is treated in slices
// of samples. Where one sample would (a window of 9,300 with 12 heads), sums are added
// up in any order, which is logged once for a shape (attention.any_order).
//
// Guarantees: except for such windows, results do not depend on timing: plans that add up
// in any order are refused.
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

#include "absl/status/statusor.h"
#include "worker/nn/attention.h"
#include "worker/nn/cuda/cudnn_attention_graph.h"
#include "worker/nn/cuda/cudnn_graph.h"
#include "worker/nn/cuda/cudnn_session.h"

namespace ringmaster::cuda {

class CudnnAttention {
 public:
  // A plan takes no more for the gradients of scores.
  static constexpr int64_t kMostScratchBytes = int64_t{2} << 30;

  // As CudnnSession::Create; the event is attention.no_cudnn.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudnnAttention>> Create(
      KernelChoice choice, CudaDevice& device, CudaStream& stream,
      int64_t most_scratch_bytes = kMostScratchBytes);

  [[nodiscard]] static GradientOrder OrderOf(AttentionShape shape,
                                             int64_t most_scratch_bytes);
  // The number of samples of `shape` that one plan of the backward pass treats.
  [[nodiscard]] static int64_t BackwardSlice(AttentionShape shape,
                                             int64_t most_scratch_bytes);

  // Queues what AttentionForward does without dropout, and returns true; or
  // does nothing and returns false: cuDNN cannot do it, or would have to make a
  // plan during a stream capture. The shape has no lengths. T is __nv_bfloat16 or __half. Errors are the
  // stream's.
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
    bool is_causal;
    bool is_apart;
    auto operator<=>(const Key&) const = default;
  };

  CudnnAttention(std::unique_ptr<CudnnSession> session,
                 int64_t most_scratch_bytes)
      : session_(std::move(session)), most_scratch_bytes_(most_scratch_bytes) {}
  bool Run(const Key& key, AttentionShape shape, CudnnAddresses tensors);
  // Null: there is none.
  CudnnPlan* PlanOf(const Key& key, AttentionShape shape);

  const std::unique_ptr<CudnnSession> session_;
  const int64_t most_scratch_bytes_;
  std::map<Key, std::unique_ptr<CudnnPlan>> plans_;
};

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_CUDNN_ATTENTION_H_
