#include "worker/nn/pooling.h"

#include <algorithm>

#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"

namespace ringmaster {
namespace {

// Elements of x that a thread takes at once, about.
constexpr int64_t kGrainElems = 16384;

// The larger of two by the rule that a later one must be larger, or NaN, to win.
template <typename T>
RM_KERNEL bool IsBeaten(T best, T by) {
  return by > best || by != by;
}

// One pooled line. The neighbours of a pixel are `channels` and `line` elements
// after it.
template <typename T>
RM_KERNEL void PoolLine(int64_t pixels, int64_t channels, int64_t line,
                        const T* __restrict x, T* __restrict y,
                        uint8_t* __restrict winners) {
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    const T* const upper = x + 2 * pixel * channels;
    const T* const lower = upper + line;
    T* const to = y + pixel * channels;
    uint8_t* const to_winner = winners + pixel * channels;
    for (int64_t i = 0; i < channels; ++i) {
      T best = upper[i];
      uint8_t winner = 0;
      winner = IsBeaten(best, upper[i + channels]) ? 1 : winner;
      best = IsBeaten(best, upper[i + channels]) ? upper[i + channels] : best;
      winner = IsBeaten(best, lower[i]) ? 2 : winner;
      best = IsBeaten(best, lower[i]) ? lower[i] : best;
      winner = IsBeaten(best, lower[i + channels]) ? 3 : winner;
      best = IsBeaten(best, lower[i + channels]) ? lower[i + channels] : best;
      to[i] = best;
      to_winner[i] = winner;
    }
  }
}

template <typename T>
RM_KERNEL void UnpoolLine(int64_t pixels, int64_t channels, int64_t line,
                          const T* __restrict dy,
                          const uint8_t* __restrict winners, T* __restrict dx) {
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    const T* const from = dy + pixel * channels;
    const uint8_t* const winner = winners + pixel * channels;
    T* const upper = dx + 2 * pixel * channels;
    T* const lower = upper + line;
    for (int64_t i = 0; i < channels; ++i) {
      upper[i] = winner[i] == 0 ? from[i] : T{0};
      upper[i + channels] = winner[i] == 1 ? from[i] : T{0};
      lower[i] = winner[i] == 2 ? from[i] : T{0};
      lower[i + channels] = winner[i] == 3 ? from[i] : T{0};
    }
  }
}

// Calls run(y_line, x_line) with the first element of each pooled line, and of
// the upper one of the two lines that it comes from.
template <typename Run>
void ForEachLine(const Compute& compute, const PoolingShape& shape,
                 const Run& run) {
  const int64_t lines = shape.height / 2;
  const int64_t x_line = shape.width * shape.channels;
  const int64_t y_line = shape.width / 2 * shape.channels;
  if (lines == 0 || y_line == 0) return;
  compute.pool.ParallelFor(
      shape.batch * lines, std::max<int64_t>(1, kGrainElems / (2 * x_line)),
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t sample = i / lines;
          run(i * y_line, (sample * shape.height + 2 * (i % lines)) * x_line);
        }
      });
}

// Zeros for the pixels that an odd size drops.
template <typename T>
void ClearDropped(const PoolingShape& shape, T* dx) {
  const int64_t line = shape.width * shape.channels;
  const int64_t lines = shape.batch * shape.height;
  for (int64_t i = 0; i < lines; ++i) {
    T* const end = dx + (i + 1) * line;
    const bool is_whole = shape.height % 2 == 1 && (i + 1) % shape.height == 0;
    std::fill(is_whole ? end - line : end - shape.width % 2 * shape.channels,
              end, T{0});
  }
}

}  // namespace

template <typename T>
void MaxPoolForward(const Compute& compute, const PoolingShape& shape,
                    const T* x, T* y, uint8_t* winners) {
  ForEachLine(compute, shape, [&](int64_t to, int64_t from) {
    CallOnCpu<PoolLine<T>>(shape.width / 2, shape.channels,
                           shape.width * shape.channels, x + from, y + to,
                           winners + to);
  });
}

template <typename T>
void MaxPoolBackward(const Compute& compute, const PoolingShape& shape,
                     const T* dy, const uint8_t* winners, T* dx) {
  if (shape.height % 2 == 1 || shape.width % 2 == 1) ClearDropped(shape, dx);
  ForEachLine(compute, shape, [&](int64_t from, int64_t to) {
    CallOnCpu<UnpoolLine<T>>(shape.width / 2, shape.channels,
                             shape.width * shape.channels, dy + from,
                             winners + from, dx + to);
  });
}

#define RM_INSTANTIATE(T)                                               \
  template void MaxPoolForward<T>(const Compute&, const PoolingShape&,  \
                                  const T*, T*, uint8_t*);              \
  template void MaxPoolBackward<T>(const Compute&, const PoolingShape&, \
                                   const T*, const uint8_t*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster
