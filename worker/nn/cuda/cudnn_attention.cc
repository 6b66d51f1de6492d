#include "worker/nn/cuda/cudnn_attention.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "common/logging/logging.h"
#include "common/status/status_macros.h"

namespace ringmaster::cuda {
namespace {

// Plans want a little beside the gradients of scores.
constexpr int64_t kSmallScratchBytes = int64_t{64} << 20;
// Rows and columns of scores are padded to a multiple of this.
constexpr int64_t kScoreUnit = 64;

// Bytes of the gradients of a sample's scores, which are of 16 bits.
int64_t ScoreBytes(AttentionShape shape) {
  const int64_t window =
      (shape.window + kScoreUnit - 1) / kScoreUnit * kScoreUnit;
  return 2 * shape.heads * window * window;
}

// Bytes of the sums that are added to in any order.
int64_t QuerySumBytes(AttentionShape shape) {
  return shape.samples * shape.heads * shape.window * shape.head_dim *
         static_cast<int64_t>(sizeof(float));
}

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
    KernelChoice choice, CudaDevice& device, CudaStream& stream,
    int64_t most_scratch_bytes) {
  ASSIGN_OR_RETURN(
      std::unique_ptr<CudnnSession> session,
      CudnnSession::Create(choice, "attention.no_cudnn", device, stream));
  if (session == nullptr) return nullptr;
  return std::unique_ptr<CudnnAttention>(
      new CudnnAttention(std::move(session), most_scratch_bytes));
}

GradientOrder CudnnAttention::OrderOf(AttentionShape shape,
                                      int64_t most_scratch_bytes) {
  return ScoreBytes(shape) <= most_scratch_bytes ? GradientOrder::kFixed
                                                 : GradientOrder::kAny;
}

int64_t CudnnAttention::BackwardSlice(AttentionShape shape,
                                      int64_t most_scratch_bytes) {
  if (OrderOf(shape, most_scratch_bytes) == GradientOrder::kAny)
    return shape.samples;
  const int64_t most =
      most_scratch_bytes / std::max<int64_t>(1, ScoreBytes(shape));
  // Equal ones, rather than full ones and a small rest.
  const int64_t slices = (shape.samples + most - 1) / most;
  return slices <= 1 ? shape.samples : (shape.samples + slices - 1) / slices;
}

CudnnPlan* CudnnAttention::PlanOf(const Key& key, AttentionShape shape) {
  if (const auto found = plans_.find(key); found != plans_.end())
    return found->second.get();
  if (!session_->CanCompile()) return nullptr;
  const CudnnLibrary& library = session_->library();
  CudnnPlanOptions options = {.workspace_bytes = kSmallScratchBytes};
  int64_t more_bytes = 0;
  const GradientOrder order = OrderOf(shape, most_scratch_bytes_);
  if (key.is_backward && order == GradientOrder::kFixed) {
    options.workspace_bytes += shape.samples * ScoreBytes(shape);
  } else if (key.is_backward) {
    LogEvent(
        LogLevel::kInfo, "attention.any_order",
        {{"window", shape.window},
         {"heads", shape.heads},
         {"message",
          "results depend on timing: a fixed order takes too much memory"}});
    options.refused.clear();
    options.workspace_bytes += QuerySumBytes(shape);
    more_bytes = QuerySumBytes(shape);
  }
  absl::StatusOr<std::unique_ptr<CudnnPlan>> plan = session_->Compile(
      key.is_backward ? AttentionBackwardGraph(library, shape, key.type, order)
                      : AttentionForwardGraph(library, shape, key.type),
      options, more_bytes);
  if (!plan.ok()) {
    LogNoPlan(key.is_backward, shape, plan.status());
    plan = nullptr;
  }
  return plans_.emplace(key, *std::move(plan)).first->second.get();
}

bool CudnnAttention::Run(const Key& key, AttentionShape shape,
                         CudnnAddresses tensors) {
  if (shape.samples == 0 || shape.window == 0) return false;
  // After an error on the stream there is no point in queueing more.
  if (!session_->stream().status().ok()) return true;
  if (!CudnnSession::AreAligned(tensors)) return false;
  CudnnPlan* const plan = PlanOf(key, shape);
  if (plan == nullptr) return false;
  if (key.is_backward &&
      OrderOf(shape, most_scratch_bytes_) == GradientOrder::kAny)
    tensors.emplace_back(kQuerySums, session_->MoreScratch(*plan));
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
  const int64_t apart = shape.part_stride();
  return Run({false, kDataType<T>, shape.samples, shape.window, shape.heads,
              shape.head_dim, shape.is_causal, shape.is_apart},
             shape,
             {{kQueries, queries},
              {kKeys, queries + apart},
              {kValues, queries + 2 * apart},
              {kOut, out},
              {kLogSumExp, log_sum_exp}});
}

template <typename T>
bool CudnnAttention::Backward(AttentionShape shape, const T* dout, const T* qkv,
                              const T* out, const float* log_sum_exp,
                              float* scratch, T* dqkv) {
  const int64_t apart = shape.part_stride();
  const int64_t elems =
      shape.window * shape.heads * shape.head_dim;  // of a sample's out
  const int64_t rows = shape.heads * shape.window;  // of a sample
  const int64_t slice = BackwardSlice(shape, most_scratch_bytes_);
  for (int64_t first = 0; first < shape.samples; first += slice) {
    AttentionShape part = shape;
    part.samples = std::min(slice, shape.samples - first);
    const int64_t begin = first * shape.window * shape.qkv_stride();
    T* const queries = const_cast<T*>(qkv) + begin;
    T* const dqueries = dqkv + begin;
    if (!Run({true, kDataType<T>, part.samples, part.window, part.heads,
              part.head_dim, part.is_causal, part.is_apart},
             part,
             {{kQueries, queries},
              {kKeys, queries + apart},
              {kValues, queries + 2 * apart},
              {kOut, const_cast<T*>(out) + first * elems},
              {kLogSumExp, const_cast<float*>(log_sum_exp) + first * rows},
              {kDout, const_cast<T*>(dout) + first * elems},
              {kDeltas, scratch + first * rows},
              {kDqueries, dqueries},
              {kDkeys, dqueries + apart},
              {kDvalues, dqueries + 2 * apart}})) {
      // The fallback begins anew.
      return false;
    }
  }
  return shape.samples > 0;
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
