#include "worker/nn/cuda/kernel_parts.cuh"
#include "worker/nn/cuda/patches.h"

namespace ringmaster::cuda {
namespace {

// A thread copies kWidth channels at once.
template <int kWidth, typename T>
__global__ void MakePatchesKernel(ImageShape shape, int64_t first, int64_t rows,
                                  const T* x, T* patches) {
  const int64_t pieces = shape.channels / kWidth;
  const int64_t count = rows * shape.kernel * shape.kernel * pieces;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += step) {
    const int64_t piece = i % pieces;
    const int64_t place = i / pieces;
    const int64_t across = place % shape.kernel;
    const int64_t down = place / shape.kernel % shape.kernel;
    const int64_t pixel = first + place / (shape.kernel * shape.kernel);
    const int64_t spread_row =
        pixel / shape.out_width % shape.out_height * shape.stride + down -
        shape.kernel / 2;
    const int64_t spread_column =
        pixel % shape.out_width * shape.stride + across - shape.kernel / 2;
    const int64_t row = spread_row / shape.spread;
    const int64_t column = spread_column / shape.spread;
    const bool is_inside = spread_row >= 0 && row < shape.height &&
                           spread_column >= 0 && column < shape.width &&
                           spread_row % shape.spread == 0 &&
                           spread_column % shape.spread == 0;
    const int64_t image = pixel / (shape.out_width * shape.out_height);
    const T* const from =
        x +
        ((image * shape.height + row) * shape.width + column) * shape.channels +
        piece * kWidth;
    T* const to = patches + place * shape.channels + piece * kWidth;
    Pack<kWidth, T> elems;
    for (T& elem : elems.elems) elem = RoundTo<T>(0.0f);
    if (is_inside) elems = LoadPack<kWidth>(from);
    StorePack(elems, to);
  }
}

template <int kWidth, typename T>
cudaError_t LaunchMakePatches(cudaStream_t stream, const ImageShape& shape,
                              int64_t first, int64_t rows, const T* x,
                              T* patches) {
  const int64_t threads =
      rows * shape.kernel * shape.kernel * (shape.channels / kWidth);
  return LaunchKernel(MakePatchesKernel<kWidth, T>,
                      GridBlocks(CeilDivide(threads, kThreadsPerBlock)),
                      kThreadsPerBlock, 0, stream, shape, first, rows, x,
                      patches);
}

template <typename T>
__global__ void TurnWeightKernel(int64_t out, int64_t kernel, int64_t in,
                                 const T* weight, T* turned) {
  const int64_t places = kernel * kernel;
  const int64_t count = out * places * in;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += step) {
    const int64_t from_out = i % out;
    const int64_t place = i / out % places;
    const int64_t from_in = i / (out * places);
    turned[i] =
        weight[(from_out * places + (places - 1 - place)) * in + from_in];
  }
}

template <typename T>
__global__ void ChannelsInnermostKernel(int64_t out, int64_t in, int64_t places,
                                        bool is_turned, const T* weight,
                                        T* to) {
  const int64_t count = out * in * places;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += step) {
    const int64_t inner = is_turned ? out : in;
    const int64_t place = i / inner % places;
    const int64_t innermost = i % inner;
    const int64_t outermost = i / (inner * places);
    to[i] =
        is_turned
            ? weight[(innermost * in + outermost) * places + places - 1 - place]
            : weight[(outermost * in + innermost) * places + place];
  }
}

__global__ void ChannelsOutermostKernel(int64_t out, int64_t in, int64_t places,
                                        Write write, const float* gradient,
                                        float* dweight) {
  const int64_t count = out * in * places;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += step) {
    const int64_t place = i % places;
    const int64_t from_in = i / places % in;
    const int64_t from_out = i / (places * in);
    const float own = gradient[(from_out * places + place) * in + from_in];
    dweight[i] = write == Write::kAdd ? dweight[i] + own : own;
  }
}

}  // namespace

template <typename T>
void MakePatches(CudaStream& stream, const ImageShape& shape, int64_t first,
                 int64_t rows, const T* x, T* patches) {
  if (rows == 0 || shape.channels == 0) return;
  constexpr int kWidth = kPackElems<T>;
  const bool is_packed = ArePacked(x, patches) && shape.channels % kWidth == 0;
  stream.Check(is_packed ? LaunchMakePatches<kWidth>(stream.get(), shape, first,
                                                     rows, x, patches)
                         : LaunchMakePatches<1>(stream.get(), shape, first,
                                                rows, x, patches),
               "patches of images");
}

template <typename T>
void TurnWeight(CudaStream& stream, int64_t out, int64_t kernel, int64_t in,
                const T* weight, T* turned) {
  const int64_t count = out * kernel * kernel * in;
  if (count == 0) return;
  stream.Check(LaunchKernel(TurnWeightKernel<T>,
                            GridBlocks(CeilDivide(count, kThreadsPerBlock)),
                            kThreadsPerBlock, 0, stream.get(), out, kernel, in,
                            weight, turned),
               "a weight turned around");
}

template <typename T>
void ChannelsInnermost(CudaStream& stream, int64_t out, int64_t in,
                       int64_t places, bool is_turned, const T* weight, T* to) {
  const int64_t count = out * in * places;
  if (count == 0) return;
  stream.Check(LaunchKernel(ChannelsInnermostKernel<T>,
                            GridBlocks(CeilDivide(count, kThreadsPerBlock)),
                            kThreadsPerBlock, 0, stream.get(), out, in, places,
                            is_turned, weight, to),
               "a weight with its channels innermost");
}

void ChannelsOutermost(CudaStream& stream, int64_t out, int64_t in,
                       int64_t places, Write write, const float* gradient,
                       float* dweight) {
  const int64_t count = out * in * places;
  if (count == 0) return;
  stream.Check(LaunchKernel(ChannelsOutermostKernel,
                            GridBlocks(CeilDivide(count, kThreadsPerBlock)),
                            kThreadsPerBlock, 0, stream.get(), out, in, places,
                            write, gradient, dweight),
               "a weight's gradient with its channels outermost");
}

#define RM_INSTANTIATE(T)                                                    \
  template void MakePatches<T>(CudaStream&, const ImageShape&, int64_t,      \
                               int64_t, const T*, T*);                       \
  template void TurnWeight<T>(CudaStream&, int64_t, int64_t, int64_t,        \
                              const T*, T*);                                 \
  template void ChannelsInnermost<T>(CudaStream&, int64_t, int64_t, int64_t, \
                                     bool, const T*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
