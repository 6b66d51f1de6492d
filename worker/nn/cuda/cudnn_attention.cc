#include "worker/nn/cuda/cudnn_attention.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "common/logging/logging.h"
#include "common/status/status_macros.h"
#include "worker/nn/cuda/cudnn_attention_graph.h"

namespace ringmaster::cuda {
namespace {

// A plan that wants more scratch is not used.
constexpr int64_t kMostWorkspaceBytes = int64_t{1} << 30;

template <typename T>
constexpr cudnnDataType_t kDataType = CUDNN_DATA_HALF;
template <>
constexpr cudnnDataType_t kDataType<__nv_bfloat16> = CUDNN_DATA_BFLOAT16;

void LogNoPlan(bool is_backward, AttentionShape shape,
               const absl::Status& status) {
  LogEvent(LogLevel::kWarning, "attention.no_cudnn_plan",
           {{"pass", is_backward ? "backward" : "forward"},
            {"samples", shape.samples},
            {"window", shape.window},
            {"heads", shape.heads},
            {"head_dim", shape.head_dim},
            {"error", status.message()}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudnnAttention>> CudnnAttention::Create(
    KernelChoice choice, CudaDevice& device, CudaStream& stream) {
  ASSIGN_OR_RETURN(
      std::unique_ptr<CudnnSession> session,
      CudnnSession::Create(choice, "attention.no_cudnn", device, stream));
  if (session == nullptr) return nullptr;
  return std::unique_ptr<CudnnAttention>(
      new CudnnAttention(std::move(session)));
}

CudnnPlan* CudnnAttention::PlanOf(const Key& key, AttentionShape shape) {
  if (const auto found = plans_.find(key); found != plans_.end())
    return found->second.get();
  if (!session_->CanCompile()) return nullptr;
  const CudnnLibrary& library = session_->library();
  absl::StatusOr<std::unique_ptr<CudnnPlan>> plan = session_->Compile(
      key.is_backward ? AttentionBackwardGraph(library, shape, key.type)
                      : AttentionForwardGraph(library, shape, key.type),
      {.workspace_bytes = kMostWorkspaceBytes});
  if (!plan.ok()) {
    LogNoPlan(key.is_backward, shape, plan.status());
    plan = nullptr;
  }
  return plans_.emplace(key, *std::move(plan)).first->second.get();
}

bool CudnnAttention::Run(const Key& key, AttentionShape shape,
                         const CudnnAddresses& tensors) {
  if (shape.samples == 0 || shape.window == 0) return false;
  // Whatever is queued behind an error is for nothing.
  if (!session_->stream().status().ok()) return true;
  if (!CudnnSession::AreAligned(tensors)) return false;
  CudnnPlan* const plan = PlanOf(key, shape);
  if (plan == nullptr) return false;
  const absl::Status status = session_->Run(*plan, tensors);
  if (absl::IsUnimplemented(status)) {
    LogNoPlan(key.is_backward, shape, status);
    plans_[key] = nullptr;
    return false;
  }
  session_->stream().Note(status);
  return true;
}

template <typename T>
bool CudnnAttention::Forward(AttentionShape shape, const T* qkv, T* out,
                             float* log_sum_exp) {
  // cuDNN's addresses are not const, whatever it does with them.
  T* const queries = const_cast<T*>(qkv);
  const int64_t width = shape.heads * shape.head_dim;
  return Run({false, kDataType<T>, shape.samples, shape.window, shape.heads,
              shape.head_dim},
             shape,
             {{kQueries, queries},
              {kKeys, queries + width},
              {kValues, queries + 2 * width},
              {kOut, out},
              {kLogSumExp, log_sum_exp}});
}

template <typename T>
bool CudnnAttention::Backward(AttentionShape shape, const T* dout, const T* qkv,
                              const T* out, const float* log_sum_exp,
                              float* scratch, T* dqkv) {
  T* const queries = const_cast<T*>(qkv);
  const int64_t width = shape.heads * shape.head_dim;
  return Run({true, kDataType<T>, shape.samples, shape.window, shape.heads,
              shape.head_dim},
             shape,
             {{kQueries, queries},
              {kKeys, queries + width},
              {kValues, queries + 2 * width},
              {kOut, const_cast<T*>(out)},
              {kLogSumExp, const_cast<float*>(log_sum_exp)},
              {kDout, const_cast<T*>(dout)},
              {kDeltas, scratch},
              {kDqueries, dqkv},
              {kDkeys, dqkv + width},
              {kDvalues, dqkv + 2 * width}});
}

#define RM_INSTANTIATE(T)                                                \
  template bool CudnnAttention::Forward<T>(AttentionShape, const T*, T*, \
                                           float*);                      \
  template bool CudnnAttention::Backward<T>(                             \
      AttentionShape, const T*, const T*, const T*, const float*, float*, T*);
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
