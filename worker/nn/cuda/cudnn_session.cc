#include "worker/nn/cuda/cudnn_session.h"

#include "absl/strings/str_cat.h"
#include "common/logging/logging.h"
#include "common/status/status_macros.h"
#include "worker/nn/cuda/capture.h"

namespace ringmaster::cuda {
namespace {

// A plan's own scratch, rounded up so that the rest behind it is aligned.
int64_t OwnBytes(const CudnnPlan& plan) {
  constexpr int64_t kUnit = 256;
  return (plan.workspace_bytes() + kUnit - 1) / kUnit * kUnit;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudnnSession>> CudnnSession::Create(
    KernelChoice choice, const char* event, CudaDevice& device,
    CudaStream& stream) {
  if (choice == KernelChoice::kOurs) return nullptr;
  absl::StatusOr<std::unique_ptr<CudnnSession>> started = Start(device, stream);
  if (started.ok()) return started;
  if (choice == KernelChoice::kCudnn) {
    return absl::Status(
        started.status().code(),
        absl::StrCat(
            started.status().message(),
            "; install cuDNN, or let auto choose whose kernels compute "
            "attention and convolutions"));
  }
  LogEvent(LogLevel::kInfo, event, {{"error", started.status().message()}});
  return nullptr;
}

absl::StatusOr<std::unique_ptr<CudnnSession>> CudnnSession::Start(
    CudaDevice& device, CudaStream& stream) {
  ASSIGN_OR_RETURN(CudnnLibrary library, CudnnLibrary::Load());
  std::unique_ptr<CudnnSession> session(
      new CudnnSession(device, stream, std::move(library)));
  const CudnnLibrary& loaded = session->library_;
  RETURN_IF_ERROR(loaded.ToStatus(loaded.functions().Create(&session->handle_),
                                  "cudnnCreate"));
  RETURN_IF_ERROR(loaded.ToStatus(
      loaded.functions().SetStream(session->handle_, stream.get()),
      "cudnnSetStream"));
  return session;
}

CudnnSession::~CudnnSession() {
  // Queued work uses the scratch; callers that wait for it get its error.
  static_cast<void>(cudaStreamSynchronize(stream_.get()));
  if (handle_ != nullptr) library_.functions().Destroy(handle_);
}

bool CudnnSession::CanCompile() { return !IsCapturing(stream_); }

bool CudnnSession::AreAligned(const CudnnAddresses& tensors) {
  for (const auto& [id, address] : tensors) {
    if (reinterpret_cast<uintptr_t>(address) % CudnnGraph::kAlignmentBytes != 0)
      return false;
  }
  return true;
}

absl::Status CudnnSession::Grow(int64_t workspace_bytes) {
  if (workspace_.size_bytes() >= workspace_bytes) return absl::OkStatus();
  // First, so that plans keep what they have if there is no memory.
  ASSIGN_OR_RETURN(Allocation larger,
                   device_.allocator().Allocate(workspace_bytes));
  RETURN_IF_ERROR(stream_.Synchronize());
  stream_.ExpireGraphs();
  workspace_ = std::move(larger);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CudnnPlan>> CudnnSession::Compile(
    CudnnGraph graph, const CudnnPlanOptions& options, int64_t more_bytes) {
  ASSIGN_OR_RETURN(std::unique_ptr<CudnnPlan> plan,
                   std::move(graph).Compile({.handle = handle_}, options));
  RETURN_IF_ERROR(Grow(OwnBytes(*plan) + more_bytes));
  return plan;
}

void* CudnnSession::MoreScratch(const CudnnPlan& plan) const {
  return static_cast<char*>(workspace_.data()) + OwnBytes(plan);
}

absl::Status CudnnSession::Run(CudnnPlan& plan, const CudnnAddresses& tensors) {
  return plan.Run(handle_, tensors, workspace_.data());
}

}  // namespace ringmaster::cuda
