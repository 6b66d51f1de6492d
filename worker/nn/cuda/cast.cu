#include "worker/nn/cuda/cast.h"
#include "worker/nn/cuda/elementwise.cuh"

namespace ringmaster::cuda {
namespace {

struct Identity {
  __device__ float operator()(float x) const { return x; }
};

}  // namespace

template <typename T>
void CastFromFloat(CudaStream& stream, int64_t count, const float* x, T* y) {
  Map(stream, "cast_from_float", count, Identity(), y, x);
}

template <typename T>
void CastToFloat(CudaStream& stream, int64_t count, const T* x, float* y) {
  Map(stream, "cast_to_float", count, Identity(), y, x);
}

#define RM_INSTANTIATE(T)                                                 \
  template void CastFromFloat<T>(CudaStream&, int64_t, const float*, T*); \
  template void CastToFloat<T>(CudaStream&, int64_t, const T*, float*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
