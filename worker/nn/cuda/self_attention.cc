#include "worker/nn/cuda/self_attention.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "worker/nn/cuda/attention.h"

namespace ringmaster::cuda {
namespace {

// Calls run(cuDNN) if there is cuDNN and it can do this. Returns true if it did
// the work.
template <typename T, typename Run>
bool TryCudnn(const CudaCompute& compute, AttentionShape shape,
              const DeviceDropout& dropout, Run run) {
  if constexpr (!std::is_same_v<T, float>) {
    if (compute.cudnn_attention != nullptr && dropout.rate == 0 &&
        shape.lengths == nullptr)
      return run(*compute.cudnn_attention);
  }
  return false;
}

}  // namespace

template <typename T>
void AttentionForward(const CudaCompute& compute, AttentionShape shape,
                      const DeviceDropout& dropout, const T* qkv, T* out,
                      float* log_sum_exp) {
  if (TryCudnn<T>(compute, shape, dropout, [&](auto& cudnn) {
        return cudnn.template Forward<T>(shape, qkv, out, log_sum_exp);
      })) {
    return;
  }
  TiledAttentionForward<T>(compute.stream, shape, dropout, qkv, out,
                           log_sum_exp);
}

template <typename T>
void AttentionBackward(const CudaCompute& compute, AttentionShape shape,
                       const DeviceDropout& dropout, const T* dout,
                       const T* qkv, const T* out, const float* log_sum_exp,
                       float* scratch, T* dqkv) {
  if (TryCudnn<T>(compute, shape, dropout, [&](auto& cudnn) {
        return cudnn.template Backward<T>(shape, dout, qkv, out, log_sum_exp,
                                          scratch, dqkv);
      })) {
    return;
  }
  TiledAttentionBackward<T>(compute.stream, shape, dropout, dout, qkv, out,
                            log_sum_exp, scratch, dqkv);
}

#define RM_INSTANTIATE(T)                                                      \
  template void AttentionForward<T>(const CudaCompute&, AttentionShape,        \
                                    const DeviceDropout&, const T*, T*,        \
                                    float*);                                   \
  template void AttentionBackward<T>(const CudaCompute&, AttentionShape,       \
                                     const DeviceDropout&, const T*, const T*, \
                                     const T*, const float*, float*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
