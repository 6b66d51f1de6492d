#include "worker/nn/cuda/add_bias.h"
#include "worker/nn/cuda/kernel_parts.cuh"

namespace ringmaster::cuda {
namespace {

template <typename T>
__global__ void AddBiasKernel(int64_t rows, int64_t columns, int64_t stride,
                              const T* bias, T* y) {
  const int64_t count = rows * columns;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += step) {
    const int64_t column = i % columns;
    T& elem = y[i / columns * stride + column];
    elem = RoundTo<T>(ToFloat(elem) + ToFloat(bias[column]));
  }
}

}  // namespace

template <typename T>
void AddBias(CudaStream& stream, int64_t rows, int64_t columns, int64_t stride,
             const T* bias, T* y) {
  if (rows == 0 || columns == 0) return;  // a grid of 0 blocks is an error
  stream.Check(
      LaunchKernel(AddBiasKernel<T>,
                   GridBlocks(CeilDivide(rows * columns, kThreadsPerBlock)),
                   kThreadsPerBlock, 0, stream.get(), rows, columns, stride,
                   bias, y),
      "a bias");
}

template void AddBias<float>(CudaStream&, int64_t, int64_t, int64_t,
                             const float*, float*);
template void AddBias<__nv_bfloat16>(CudaStream&, int64_t, int64_t, int64_t,
                                     const __nv_bfloat16*, __nv_bfloat16*);
template void AddBias<__half>(CudaStream&, int64_t, int64_t, int64_t,
                              const __half*, __half*);

}  // namespace ringmaster::cuda
