#include "worker/nn/cuda/gather.h"
#include "worker/nn/cuda/kernel_parts.cuh"

namespace ringmaster::cuda {
namespace {

// A thread for each element of the rows.
template <bool kIsForward, typename T>
__global__ void GatherKernel(int64_t count, int64_t dim, const int32_t* places,
                             const T* from, T* to) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count * dim; i += step) {
    const int64_t picked = places[i / dim] * dim + i % dim;
    if (kIsForward) {
      to[i] = from[picked];
    } else {
      to[picked] = from[i];
    }
  }
}

template <bool kIsForward, typename T>
void Launch(CudaStream& stream, GatherShape shape, const int32_t* places,
            const T* from, T* to) {
  const int64_t elems = shape.count * shape.dim;
  if (elems == 0) return;  // a grid of 0 blocks is an error
  stream.Check(
      LaunchKernel(GatherKernel<kIsForward, T>,
                   dim3(GridBlocks(CeilDivide(elems, kThreadsPerBlock))),
                   dim3(kThreadsPerBlock), 0, stream.get(), shape.count,
                   shape.dim, places, from, to),
      "gather");
}

}  // namespace

template <typename T>
void GatherForward(CudaStream& stream, GatherShape shape, const int32_t* places,
                   const T* x, T* y) {
  Launch<true>(stream, shape, places, x, y);
}

template <typename T>
void GatherBackward(CudaStream& stream, GatherShape shape,
                    const int32_t* places, const T* dy, T* dx) {
  stream.FillZero(dx, shape.rows * shape.dim * static_cast<int64_t>(sizeof(T)));
  Launch<false>(stream, shape, places, dy, dx);
}

#define RM_INSTANTIATE(T)                                                   \
  template void GatherForward<T>(CudaStream&, GatherShape, const int32_t*,  \
                                 const T*, T*);                             \
  template void GatherBackward<T>(CudaStream&, GatherShape, const int32_t*, \
                                  const T*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
