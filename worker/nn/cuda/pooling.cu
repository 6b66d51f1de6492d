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

#define RM_INSTANTIATE(T)                                                      \
  template void MaxPoolForward<T>(CudaStream&, const PoolingShape&, const T*,  \
                                  T*, uint8_t*);                               \
  template void MaxPoolBackward<T>(CudaStream&, const PoolingShape&, const T*, \
                                   const uint8_t*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
