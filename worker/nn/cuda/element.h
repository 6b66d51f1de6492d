// The element types of operators on GPUs, and their way to and from float, in
// which all of them compute.
//
// Thread-safety: pure; on the host as on the device.
#ifndef RINGMASTER_WORKER_NN_CUDA_ELEMENT_H_
#define RINGMASTER_WORKER_NN_CUDA_ELEMENT_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace ringmaster::cuda {

__host__ __device__ inline float ToFloat(float x) { return x; }
__host__ __device__ inline float ToFloat(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
__host__ __device__ inline float ToFloat(__half x) { return __half2float(x); }

// Rounds to nearest, ties to even. Values too large for __half become infinite.
template <typename T>
__host__ __device__ inline T RoundTo(float x);
template <>
__host__ __device__ inline float RoundTo<float>(float x) {
  return x;
}
template <>
__host__ __device__ inline __nv_bfloat16 RoundTo<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__host__ __device__ inline __half RoundTo<__half>(float x) {
  return __float2half_rn(x);
}

// to[0] and to[1] = a and b, rounded the same way.
__host__ __device__ inline void RoundTwo(float a, float b, __nv_bfloat16* to) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(a, b);
  to[0] = both.x;
  to[1] = both.y;
}
__host__ __device__ inline void RoundTwo(float a, float b, __half* to) {
  const __half2 both = __floats2half2_rn(a, b);
  to[0] = both.x;
  to[1] = both.y;
}

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_ELEMENT_H_
