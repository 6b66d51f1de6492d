// Map treats elements one by one: y[i] = op(a[i], b[i], ...).
//
// For .cu files alone.
#ifndef RINGMASTER_WORKER_NN_CUDA_ELEMENTWISE_CUH_
#define RINGMASTER_WORKER_NN_CUDA_ELEMENTWISE_CUH_

#include <cstdint>

#include "worker/device/cuda/cuda_stream.h"
#include "worker/nn/cuda/kernel_parts.cuh"

namespace ringmaster::cuda {

// Elements that a thread treats at once: one load of 128 bits, or two of
// floats.
constexpr int kMapElems = 8;

template <int kWidth, typename Op, typename... X>
__device__ inline Pack<kWidth, float> MapPacks(Op op, const X&... x) {
  Pack<kWidth, float> y;
  for (int k = 0; k < kWidth; ++k) y.elems[k] = op(x.elems[k]...);
  return y;
}

// `y` may be one of the inputs: a thread reads elements before it writes them.
template <int kWidth, typename Op, typename Y, typename... X>
__global__ void MapKernel(int64_t count, Op op, Y* y, const X*... x) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x * kWidth;
  int64_t i =
      (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kWidth;
  for (; i + kWidth <= count; i += stride)
    StoreFloats(MapPacks<kWidth>(op, LoadFloats<kWidth>(x + i)...), y + i);
  // The elements that do not fill the last pack.
  for (; i < count; ++i) y[i] = RoundTo<Y>(op(ToFloat(x[i])...));
}

template <int kWidth, typename Op, typename Y, typename... X>
cudaError_t LaunchMap(cudaStream_t stream, int64_t count, Op op, Y* y,
                      const X*... x) {
  void (*const kernel)(int64_t, Op, Y*, const X*...) =
      MapKernel<kWidth, Op, Y, X...>;
  return LaunchKernel(kernel,
                      GridBlocks(CeilDivide(count, kWidth * kThreadsPerBlock)),
                      kThreadsPerBlock, 0, stream, count, op, y, x...);
}

// y [count] = op(x...), computed in float. `op` is a function object that the
// kernel gets a copy of; `what` names the operator in errors.
template <typename Op, typename Y, typename... X>
void Map(CudaStream& stream, const char* what, int64_t count, Op op, Y* y,
         const X*... x) {
  if (count == 0) return;  // a grid of 0 blocks is an error
  stream.Check(ArePacked(y, x...)
                   ? LaunchMap<kMapElems>(stream.get(), count, op, y, x...)
                   : LaunchMap<1>(stream.get(), count, op, y, x...),
               what);
}

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_ELEMENTWISE_CUH_
