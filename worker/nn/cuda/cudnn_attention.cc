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
// That graphs promise of their tensors' addresses.
constexpr uintptr_t kAlignmentBytes = 16;

template <typename T>
constexpr cudnnDataType_t kDataType = CUDNN_DATA_HALF;
template <>
constexpr cudnnDataType_t kDataType<__nv_bfloat16> = CUDNN_DATA_BFLOAT16;

}  // namespace

absl::StatusOr<std::unique_ptr<CudnnAttention>> CudnnAttention::Create(
    AttentionKernels kernels, CudaDevice& device, CudaStream& stream) {
  if (kernels == AttentionKernels::kOurs) return nullptr;
  absl::StatusOr<std::unique_ptr<CudnnAttention>> started =
      Start(device, stream);
  if (started.ok() || kernels == AttentionKernels::kCudnn) return started;
  LogEvent(LogLevel::kInfo, "attention.no_cudnn",
           {{"error", started.status().message()}});
  return nullptr;
}

absl::StatusOr<std::unique_ptr<CudnnAttention>> CudnnAttention::Start(
    CudaDevice& device, CudaStream& stream) {
  ASSIGN_OR_RETURN(CudnnLibrary library, CudnnLibrary::Load());
  std::unique_ptr<CudnnAttention> attention(
      new CudnnAttention(device, stream, std::move(library)));
  const CudnnLibrary& loaded = attention->library_;
  RETURN_IF_ERROR(loaded.ToStatus(
      loaded.functions().Create(&attention->handle_), "cudnnCreate"));
  RETURN_IF_ERROR(loaded.ToStatus(
      loaded.functions().SetStream(attention->handle_, stream.get()),
      "cudnnSetStream"));
  return attention;
}

CudnnAttention::~CudnnAttention() {
  // What is queued uses the scratch; an error of it is told to who waits for it.
  static_cast<void>(cudaStreamSynchronize(stream_.get()));
  plans_.clear();
  if (handle_ != nullptr) library_.functions().Destroy(handle_);
}

absl::Status CudnnAttention::Grow(int64_t workspace_bytes) {
  if (workspace_.size_bytes() >= workspace_bytes) return absl::OkStatus();
  RETURN_IF_ERROR(stream_.Synchronize());
  stream_.ExpireGraphs();
  workspace_ = Allocation();
  ASSIGN_OR_RETURN(workspace_, device_.allocator().Allocate(workspace_bytes));
  return absl::OkStatus();
}

CudnnPlan* CudnnAttention::PlanOf(const Key& key, AttentionShape shape) {
  if (const auto found = plans_.find(key); found != plans_.end())
    return found->second.get();
  CudnnGraph graph = key.is_backward
                         ? AttentionBackwardGraph(library_, shape, key.type)
                         : AttentionForwardGraph(library_, shape, key.type);
  absl::StatusOr<std::unique_ptr<CudnnPlan>> plan = std::move(graph).Compile(
      {.handle = handle_},
      {.deterministic = true, .workspace_bytes = kMostWorkspaceBytes});
  absl::Status status = plan.status();
  if (status.ok()) status = Grow((*plan)->workspace_bytes());
  if (!status.ok()) {
    LogEvent(LogLevel::kWarning, "attention.no_cudnn_plan",
             {{"pass", key.is_backward ? "backward" : "forward"},
              {"samples", shape.samples},
              {"window", shape.window},
              {"heads", shape.heads},
              {"head_dim", shape.head_dim},
              {"error", status.message()}});
    plan = nullptr;
  }
  return plans_.emplace(key, *std::move(plan)).first->second.get();
}

bool CudnnAttention::Run(
    const Key& key, AttentionShape shape,
    const std::vector<std::pair<int64_t, void*>>& tensors) {
  if (shape.samples == 0 || shape.window == 0) return false;
  // Whatever is queued behind an error is for nothing.
  if (!stream_.status().ok()) return true;
  for (const auto& [id, address] : tensors) {
    if (reinterpret_cast<uintptr_t>(address) % kAlignmentBytes != 0)
      return false;
  }
  CudnnPlan* const plan = PlanOf(key, shape);
  if (plan == nullptr) return false;
  stream_.Note(plan->Run(handle_, tensors, workspace_.data()));
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
