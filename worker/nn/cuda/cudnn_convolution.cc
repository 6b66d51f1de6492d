#include "worker/nn/cuda/cudnn_convolution.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "common/logging/logging.h"
#include "common/status/status_macros.h"
#include "worker/nn/cuda/cudnn_convolution_graph.h"

namespace ringmaster::cuda {
namespace {

template <typename T>
constexpr cudnnDataType_t kDataType = CUDNN_DATA_FLOAT;
template <>
constexpr cudnnDataType_t kDataType<__nv_bfloat16> = CUDNN_DATA_BFLOAT16;
template <>
constexpr cudnnDataType_t kDataType<__half> = CUDNN_DATA_HALF;

const char* NameOf(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::kForward:
      return "forward";
    case ConvolutionPass::kBackwardInput:
      return "input's gradient";
    case ConvolutionPass::kBackwardWeight:
      return "weight's gradient";
  }
  return "?";
}

void LogNoPlan(ConvolutionPass pass, const Conv2dShape& shape,
               const absl::Status& status) {
  LogEvent(LogLevel::kWarning, "convolution.no_cudnn_plan",
           {{"pass", NameOf(pass)},
            {"batch", shape.batch},
            {"height", shape.height},
            {"width", shape.width},
            {"in", shape.in},
            {"out", shape.out},
            {"kernel", shape.kernel},
            {"stride", shape.stride},
            {"error", status.message()}});
}

// cuDNN's addresses are not const, whatever it does with them.
template <typename T>
void* Address(const T* data) {
  return const_cast<T*>(data);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudnnConvolution>> CudnnConvolution::Create(
    KernelChoice choice, CudaDevice& device, CudaStream& stream) {
  ASSIGN_OR_RETURN(
      std::unique_ptr<CudnnSession> session,
      CudnnSession::Create(choice, "convolution.no_cudnn", device, stream));
  if (session == nullptr) return nullptr;
  return std::unique_ptr<CudnnConvolution>(
      new CudnnConvolution(std::move(session)));
}

CudnnPlan* CudnnConvolution::PlanOf(const Key& key, const Conv2dShape& shape) {
  if (const auto found = plans_.find(key); found != plans_.end())
    return found->second.get();
  if (!session_->CanCompile()) return nullptr;
  absl::StatusOr<std::unique_ptr<CudnnPlan>> plan =
      session_->Compile(ConvolutionGraph(session_->library(), key.pass, shape,
                                         key.type, key.has_bias),
                        ConvolutionPlanOptions(key.type, key.use_tf32));
  if (!plan.ok()) {
    LogNoPlan(key.pass, shape, plan.status());
    plan = nullptr;
  }
  return plans_.emplace(key, *std::move(plan)).first->second.get();
}

bool CudnnConvolution::Run(ConvolutionPass pass, cudnnDataType_t type,
                           bool use_tf32, const Conv2dShape& shape,
                           const CudnnAddresses& tensors) {
  const auto& [batch, height, width, in, out, kernel, stride] = shape;
  if (batch == 0 || height == 0 || width == 0 || in == 0 || out == 0)
    return false;
  // After an error on the stream there is no point in queueing more.
  if (!session_->stream().status().ok()) return true;
  if (!CudnnSession::AreAligned(tensors)) return false;
  const bool has_bias =
      std::any_of(tensors.begin(), tensors.end(),
                  [](const auto& tensor) { return tensor.first == kBias; });
  const Key key = {pass, type, use_tf32, batch,  height,  width,
                   in,   out,  kernel,   stride, has_bias};
  CudnnPlan* const plan = PlanOf(key, shape);
  if (plan == nullptr) return false;
  const absl::Status status = session_->Run(*plan, tensors);
  if (absl::IsUnimplemented(status)) {
    LogNoPlan(pass, shape, status);
    plans_[key] = nullptr;
    return false;
  }
  session_->stream().Note(status);
  return true;
}

template <typename T>
bool CudnnConvolution::Forward(const Conv2dShape& shape, bool use_tf32,
                               const T* x, const T* weight, const T* bias,
                               T* y) {
  CudnnAddresses tensors = {
      {kImages, Address(x)}, {kWeight, Address(weight)}, {kResult, y}};
  if (bias != nullptr) tensors.push_back({kBias, Address(bias)});
  return Run(ConvolutionPass::kForward, kDataType<T>, use_tf32, shape, tensors);
}

template <typename T>
bool CudnnConvolution::BackwardInput(const Conv2dShape& shape, bool use_tf32,
                                     const T* dy, const T* weight, T* dx) {
  return Run(
      ConvolutionPass::kBackwardInput, kDataType<T>, use_tf32, shape,
      {{kImages, dx}, {kWeight, Address(weight)}, {kResult, Address(dy)}});
}

template <typename T>
bool CudnnConvolution::BackwardWeight(const Conv2dShape& shape, bool use_tf32,
                                      const T* dy, const T* x, float* dweight) {
  return Run(
      ConvolutionPass::kBackwardWeight, kDataType<T>, use_tf32, shape,
      {{kImages, Address(x)}, {kWeight, dweight}, {kResult, Address(dy)}});
}

#define RM_INSTANTIATE(T)                                                    \
  template bool CudnnConvolution::Forward<T>(                                \
      const Conv2dShape&, bool, const T*, const T*, const T*, T*);           \
  template bool CudnnConvolution::BackwardInput<T>(const Conv2dShape&, bool, \
                                                   const T*, const T*, T*);  \
  template bool CudnnConvolution::BackwardWeight<T>(                         \
      const Conv2dShape&, bool, const T*, const T*, float*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
