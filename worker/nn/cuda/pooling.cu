#include "worker/nn/cuda/kernel_parts.cuh"
#include "worker/nn/cuda/pooling.h"

namespace ringmaster::cuda {
namespace {

// The lines that blocks of threads walk along: each block a pooled line, from
// its first element. The neighbours of a pixel are `channels` and `line`
// elements after it.
struct Lines {
  int64_t lines;         // of a pooled sample
  int64_t sample_lines;  // of a sample
  int64_t line;          // elements of a line of x
  int64_t pooled_line;   // elements of a line of y
  int64_t channels;
};

Lines LinesOf(const PoolingShape& shape) {
  return {shape.height / 2, shape.height, shape.width * shape.channels,
          shape.width / 2 * shape.channels, shape.channels};
}

// Calls each(place in y, place in x of the first of the four) for each kWidth
// elements of pooled line blockIdx.x.
template <int kWidth, typename Each>
__device__ void ForEachPooled(const Lines& at, const Each& each) {
  const int64_t pooled = blockIdx.x;
  const int64_t to = pooled * at.pooled_line;
  const int64_t from =
      (pooled / at.lines * at.sample_lines + 2 * (pooled % at.lines)) * at.line;
  for (int64_t i = static_cast<int64_t>(threadIdx.x) * kWidth;
       i < at.pooled_line; i += static_cast<int64_t>(blockDim.x) * kWidth) {
    // Twice the pixel, and the same channel.
    const int64_t pixel = i / at.channels * at.channels;
    each(to + i, from + pixel + i);
  }
}

template <int kWidth, typename T>
__global__ void __launch_bounds__(kMaxThreads)
    ForwardKernel(Lines at, const T* x, T* y, uint8_t* winners) {
  ForEachPooled<kWidth>(at, [&](int64_t to, int64_t from) {
    Pack<kWidth, T> best = LoadPack<kWidth>(x + from);
    Pack<kWidth, uint8_t> winner = {};
    const auto challenge = [&](int by, int64_t place) {
      const Pack<kWidth, T> rival = LoadPack<kWidth>(x + place);
      for (int i = 0; i < kWidth; ++i) {
        const float value = ToFloat(rival.elems[i]);
        // A later one must be larger, or NaN, to win.
        if (!(value > ToFloat(best.elems[i]) || value != value)) continue;
        best.elems[i] = rival.elems[i];
        winner.elems[i] = static_cast<uint8_t>(by);
      }
    };
    challenge(1, from + at.channels);
    challenge(2, from + at.line);
    challenge(3, from + at.line + at.channels);
    StorePack(best, y + to);
    StorePack(winner, winners + to);
  });
}

template <int kWidth, typename T>
__global__ void __launch_bounds__(kMaxThreads)
    BackwardKernel(Lines at, const T* dy, const uint8_t* winners, T* dx) {
  ForEachPooled<kWidth>(at, [&](int64_t from, int64_t to) {
    const Pack<kWidth, T> gradient = LoadPack<kWidth>(dy + from);
    const Pack<kWidth, uint8_t> winner = LoadPack<kWidth>(winners + from);
    const auto give = [&](int pixel, int64_t place) {
      Pack<kWidth, T> own;
      for (int i = 0; i < kWidth; ++i) {
        own.elems[i] =
            winner.elems[i] == pixel ? gradient.elems[i] : RoundTo<T>(0.0f);
      }
      StorePack(own, dx + place);
    };
    give(0, to);
    give(1, to + at.channels);
    give(2, to + at.line);
    give(3, to + at.line + at.channels);
  });
}

// Blocks, one for each pooled line.
int64_t Blocks(const PoolingShape& shape) {
  const Lines at = LinesOf(shape);
  return at.pooled_line == 0 ? 0 : shape.batch * at.lines;
}

// A thread for each element of the output of 3x3.
template <typename T>
__global__ void Forward3Kernel(PoolingShape shape, const T* x, T* y,
                               uint8_t* winners) {
  const int64_t out_height = (shape.height + 1) / 2;
  const int64_t out_width = (shape.width + 1) / 2;
  const int64_t count = shape.batch * out_height * out_width * shape.channels;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += step) {
    const int64_t channel = i % shape.channels;
    const int64_t pixel = i / shape.channels;
    const int64_t column = 2 * (pixel % out_width) - 1;
    const int64_t row = 2 * (pixel / out_width % out_height) - 1;
    const int64_t sample = pixel / (out_width * out_height);
    T best = RoundTo<T>(0.0f);
    int winner = -1;
    for (int place = 0; place < 9; ++place) {
      const int64_t r = row + place / 3;
      const int64_t c = column + place % 3;
      if (r < 0 || r >= shape.height || c < 0 || c >= shape.width) continue;
      const T rival =
          x[((sample * shape.height + r) * shape.width + c) * shape.channels +
            channel];
      const float value = ToFloat(rival);
      // A later one must be larger, or NaN, to win.
      if (winner >= 0 && !(value > ToFloat(best) || value != value)) continue;
      best = rival;
      winner = place;
    }
    y[i] = best;
    winners[i] = static_cast<uint8_t>(winner);
  }
}

// A thread for each element of dx, which is part of up to four of the output.
template <typename T>
__global__ void Backward3Kernel(PoolingShape shape, const T* dy,
                                const uint8_t* winners, T* dx) {
  const int64_t out_height = (shape.height + 1) / 2;
  const int64_t out_width = (shape.width + 1) / 2;
  const int64_t count =
      shape.batch * shape.height * shape.width * shape.channels;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += step) {
    const int64_t channel = i % shape.channels;
    const int64_t pixel = i / shape.channels;
    const int64_t column = pixel % shape.width;
    const int64_t row = pixel / shape.width % shape.height;
    const int64_t sample = pixel / (shape.width * shape.height);
    float sum = 0;
    for (int64_t r = row / 2; r <= (row + 1) / 2 && r < out_height; ++r) {
      for (int64_t c = column / 2; c <= (column + 1) / 2 && c < out_width;
           ++c) {
        const int64_t at =
            ((sample * out_height + r) * out_width + c) * shape.channels +
            channel;
        const int64_t place = (row - 2 * r + 1) * 3 + column - 2 * c + 1;
        if (winners[at] == place) sum += ToFloat(dy[at]);
      }
    }
    dx[i] = RoundTo<T>(sum);
  }
}

// A thread for each channel of each sample.
template <typename T>
__global__ void MeanKernel(int64_t count, int64_t pixels, int64_t channels,
                           const T* x, T* y) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const T* const from = x + i / channels * pixels * channels + i % channels;
  float sum = 0;
  for (int64_t pixel = 0; pixel < pixels; ++pixel)
    sum += ToFloat(from[pixel * channels]);
  y[i] = RoundTo<T>(sum / static_cast<float>(pixels));
}

template <typename T>
__global__ void SpreadKernel(int64_t count, int64_t pixels, int64_t channels,
                             const T* dy, T* dx) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += step) {
    const float gradient =
        ToFloat(dy[i / (pixels * channels) * channels + i % channels]);
    dx[i] = RoundTo<T>(gradient / static_cast<float>(pixels));
  }
}

unsigned ElementBlocks(int64_t count) {
  return GridBlocks(CeilDivide(count, kThreadsPerBlock));
}

int64_t InElems(const PoolingShape& shape) {
  return shape.batch * shape.height * shape.width * shape.channels;
}

}  // namespace

template <typename T>
void MaxPoolForward(CudaStream& stream, const PoolingShape& shape, const T* x,
                    T* y, uint8_t* winners) {
  const int64_t blocks = Blocks(shape);
  if (blocks == 0) return;  // a grid of 0 blocks is an error
  const Lines at = LinesOf(shape);
  constexpr int kWidth = kPackElems<T>;
  const dim3 grid(static_cast<unsigned>(blocks));
  const bool is_packed =
      ArePacked(x, y, winners) && shape.channels % kWidth == 0;
  stream.Check(is_packed
                   ? LaunchKernel(ForwardKernel<kWidth, T>, grid,
                                  dim3(BlockThreads(at.pooled_line / kWidth)),
                                  0, stream.get(), at, x, y, winners)
                   : LaunchKernel(ForwardKernel<1, T>, grid,
                                  dim3(BlockThreads(at.pooled_line)), 0,
                                  stream.get(), at, x, y, winners),
               "max_pool_forward");
}

template <typename T>
void MaxPoolBackward(CudaStream& stream, const PoolingShape& shape, const T* dy,
                     const uint8_t* winners, T* dx) {
  // An odd last line or column, which no pooled pixel has seen.
  if (shape.height % 2 == 1 || shape.width % 2 == 1) {
    stream.FillZero(dx, shape.batch * shape.height * shape.width *
                            shape.channels * static_cast<int64_t>(sizeof(T)));
  }
  const int64_t blocks = Blocks(shape);
  if (blocks == 0) return;
  const Lines at = LinesOf(shape);
  constexpr int kWidth = kPackElems<T>;
  const dim3 grid(static_cast<unsigned>(blocks));
  const bool is_packed =
      ArePacked(dy, dx, winners) && shape.channels % kWidth == 0;
  stream.Check(is_packed
                   ? LaunchKernel(BackwardKernel<kWidth, T>, grid,
                                  dim3(BlockThreads(at.pooled_line / kWidth)),
                                  0, stream.get(), at, dy, winners, dx)
                   : LaunchKernel(BackwardKernel<1, T>, grid,
                                  dim3(BlockThreads(at.pooled_line)), 0,
                                  stream.get(), at, dy, winners, dx),
               "max_pool_backward");
}

template <typename T>
void MaxPool3Forward(CudaStream& stream, const PoolingShape& shape, const T* x,
                     T* y, uint8_t* winners) {
  const int64_t count = shape.batch * ((shape.height + 1) / 2) *
                        ((shape.width + 1) / 2) * shape.channels;
  if (count == 0) return;
  stream.Check(
      LaunchKernel(Forward3Kernel<T>, ElementBlocks(count), kThreadsPerBlock, 0,
                   stream.get(), shape, x, y, winners),
      "max_pool3_forward");
}

template <typename T>
void MaxPool3Backward(CudaStream& stream, const PoolingShape& shape,
                      const T* dy, const uint8_t* winners, T* dx) {
  if (InElems(shape) == 0) return;
  stream.Check(
      LaunchKernel(Backward3Kernel<T>, ElementBlocks(InElems(shape)),
                   kThreadsPerBlock, 0, stream.get(), shape, dy, winners, dx),
      "max_pool3_backward");
}

template <typename T>
void MeanPoolForward(CudaStream& stream, const PoolingShape& shape, const T* x,
                     T* y) {
  const int64_t count = shape.batch * shape.channels;
  if (count == 0) return;
  stream.Check(
      LaunchKernel(
          MeanKernel<T>,
          dim3(static_cast<unsigned>(CeilDivide(count, kThreadsPerBlock))),
          dim3(kThreadsPerBlock), 0, stream.get(), count,
          shape.height * shape.width, shape.channels, x, y),
      "mean_pool_forward");
}

template <typename T>
void MeanPoolBackward(CudaStream& stream, const PoolingShape& shape,
                      const T* dy, T* dx) {
  if (InElems(shape) == 0) return;
  stream.Check(LaunchKernel(SpreadKernel<T>, ElementBlocks(InElems(shape)),
                            kThreadsPerBlock, 0, stream.get(), InElems(shape),
                            shape.height * shape.width, shape.channels, dy, dx),
               "mean_pool_backward");
}

#define RM_INSTANTIATE(T)                                                      \
  template void MaxPoolForward<T>(CudaStream&, const PoolingShape&, const T*,  \
                                  T*, uint8_t*);                               \
  template void MaxPoolBackward<T>(CudaStream&, const PoolingShape&, const T*, \
                                   const uint8_t*, T*);                        \
  template void MaxPool3Forward<T>(CudaStream&, const PoolingShape&, const T*, \
                                   T*, uint8_t*);                              \
  template void MaxPool3Backward<T>(CudaStream&, const PoolingShape&,          \
                                    const T*, const uint8_t*, T*);             \
  template void MeanPoolForward<T>(CudaStream&, const PoolingShape&, const T*, \
                                   T*);                                        \
  template void MeanPoolBackward<T>(CudaStream&, const PoolingShape&,          \
                                    const T*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
