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

#include "absl/status/statusor.h"
#include "worker/nn/attention.h"
#include "worker/nn/cuda/cudnn_graph.h"
#include "worker/nn/cuda/cudnn_session.h"

namespace ringmaster::cuda {

class CudnnAttention {
 public:
  // As CudnnSession::Create; the event is attention.no_cudnn.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudnnAttention>> Create(
      KernelChoice choice, CudaDevice& device, CudaStream& stream);

  // Queues what AttentionForward does without dropout, and returns true; or
  // does nothing and returns false: cuDNN cannot do it, or would have to make a
  // plan during a stream capture. T is __nv_bfloat16 or __half. Errors are the
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
    auto operator<=>(const Key&) const = default;
  };

  explicit CudnnAttention(std::unique_ptr<CudnnSession> session)
      : session_(std::move(session)) {}
  bool Run(const Key& key, AttentionShape shape, const CudnnAddresses& tensors);
  // Null: there is none.
  CudnnPlan* PlanOf(const Key& key, AttentionShape shape);

  const std::unique_ptr<CudnnSession> session_;
  std::map<Key, std::unique_ptr<CudnnPlan>> plans_;
};

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_CUDNN_ATTENTION_H_
