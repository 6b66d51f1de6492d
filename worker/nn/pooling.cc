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

// A line of the output of 3x3, at `line`; x is the sample.
template <typename T>
RM_KERNEL void Pool3Line(const PoolingShape& shape, int64_t line, const T* x,
                         T* __restrict y, uint8_t* __restrict winners) {
  const int64_t channels = shape.channels;
  for (int64_t pixel = 0; pixel < (shape.width + 1) / 2; ++pixel) {
    T* const best = y + pixel * channels;
    uint8_t* const winner = winners + pixel * channels;
    bool is_first = true;
    for (int64_t place = 0; place < 9; ++place) {
      const int64_t row = 2 * line + place / 3 - 1;
      const int64_t column = 2 * pixel + place % 3 - 1;
      if (row < 0 || row >= shape.height || column < 0 || column >= shape.width)
        continue;
      const T* const from = x + (row * shape.width + column) * channels;
      const auto by = static_cast<uint8_t>(place);
      if (is_first) {
        std::copy_n(from, channels, best);
        std::fill_n(winner, channels, by);
        is_first = false;
        continue;
      }
      for (int64_t i = 0; i < channels; ++i) {
        const bool is_beaten = IsBeaten(best[i], from[i]);
        best[i] = is_beaten ? from[i] : best[i];
        winner[i] = is_beaten ? by : winner[i];
      }
    }
  }
}

// dx of a line of a sample; each pixel is part of one or two lines of the
// output, and of one or two of its columns.
template <typename T>
RM_KERNEL void Unpool3Line(const PoolingShape& shape, int64_t line,
                           const T* __restrict dy,
                           const uint8_t* __restrict winners,
                           T* __restrict dx) {
  const int64_t channels = shape.channels;
  const int64_t out_width = (shape.width + 1) / 2;
  const int64_t out_height = (shape.height + 1) / 2;
  std::fill_n(dx, shape.width * channels, T{0});
  for (int64_t row = line / 2; row <= std::min((line + 1) / 2, out_height - 1);
       ++row) {
    for (int64_t column = 0; column < shape.width; ++column) {
      for (int64_t pixel = column / 2;
           pixel <= std::min((column + 1) / 2, out_width - 1); ++pixel) {
        const auto place = static_cast<uint8_t>((line - 2 * row + 1) * 3 +
                                                column - 2 * pixel + 1);
        const int64_t at = (row * out_width + pixel) * channels;
        T* const to = dx + column * channels;
        for (int64_t i = 0; i < channels; ++i)
          to[i] += winners[at + i] == place ? dy[at + i] : T{0};
      }
    }
  }
}

// Calls run(sample, line) for `lines` lines of each sample.
template <typename Run>
void ForEachLineOf(const Compute& compute, const PoolingShape& shape,
                   int64_t lines, const Run& run) {
  const int64_t line = shape.width * shape.channels;
  if (lines == 0 || line == 0) return;
  compute.pool.ParallelFor(shape.batch * lines,
                           std::max<int64_t>(1, kGrainElems / line),
                           [&](int64_t begin, int64_t end) {
                             for (int64_t i = begin; i < end; ++i)
                               run(i / lines, i % lines);
                           });
}

template <typename T>
RM_KERNEL void MeanKernel(int64_t pixels, int64_t channels,
                          const T* __restrict x, T* __restrict y) {
  std::fill_n(y, channels, T{0});
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    for (int64_t i = 0; i < channels; ++i) y[i] += x[pixel * channels + i];
  }
  const T count = static_cast<T>(pixels);
  for (int64_t i = 0; i < channels; ++i) y[i] /= count;
}

template <typename T>
RM_KERNEL void SpreadKernel(int64_t pixels, int64_t channels,
                            const T* __restrict dy, T* __restrict dx) {
  const T count = static_cast<T>(pixels);
  for (int64_t i = 0; i < channels; ++i) dx[i] = dy[i] / count;
  for (int64_t pixel = 1; pixel < pixels; ++pixel)
    std::copy_n(dx, channels, dx + pixel * channels);
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

template <typename T>
void MaxPool3Forward(const Compute& compute, const PoolingShape& shape,
                     const T* x, T* y, uint8_t* winners) {
  const int64_t lines = (shape.height + 1) / 2;
  const int64_t line = (shape.width + 1) / 2 * shape.channels;
  const int64_t sample = shape.height * shape.width * shape.channels;
  ForEachLineOf(compute, shape, lines, [&](int64_t b, int64_t row) {
    const int64_t at = (b * lines + row) * line;
    CallOnCpu<Pool3Line<T>>(shape, row, x + b * sample, y + at, winners + at);
  });
}

template <typename T>
void MaxPool3Backward(const Compute& compute, const PoolingShape& shape,
                      const T* dy, const uint8_t* winners, T* dx) {
  const int64_t sample =
      (shape.height + 1) / 2 * ((shape.width + 1) / 2) * shape.channels;
  const int64_t line = shape.width * shape.channels;
  ForEachLineOf(compute, shape, shape.height, [&](int64_t b, int64_t row) {
    CallOnCpu<Unpool3Line<T>>(shape, row, dy + b * sample, winners + b * sample,
                              dx + (b * shape.height + row) * line);
  });
}

template <typename T>
void MeanPoolForward(const Compute& compute, const PoolingShape& shape,
                     const T* x, T* y) {
  const int64_t pixels = shape.height * shape.width;
  compute.pool.ParallelFor(shape.batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      CallOnCpu<MeanKernel<T>>(pixels, shape.channels,
                               x + i * pixels * shape.channels,
                               y + i * shape.channels);
    }
  });
}

template <typename T>
void MeanPoolBackward(const Compute& compute, const PoolingShape& shape,
                      const T* dy, T* dx) {
  const int64_t pixels = shape.height * shape.width;
  compute.pool.ParallelFor(shape.batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      CallOnCpu<SpreadKernel<T>>(pixels, shape.channels,
                                 dy + i * shape.channels,
                                 dx + i * pixels * shape.channels);
    }
  });
}

#define RM_INSTANTIATE(T)                                                \
  template void MaxPoolForward<T>(const Compute&, const PoolingShape&,   \
                                  const T*, T*, uint8_t*);               \
  template void MaxPoolBackward<T>(const Compute&, const PoolingShape&,  \
                                   const T*, const uint8_t*, T*);        \
  template void MaxPool3Forward<T>(const Compute&, const PoolingShape&,  \
                                   const T*, T*, uint8_t*);              \
  template void MaxPool3Backward<T>(const Compute&, const PoolingShape&, \
                                    const T*, const uint8_t*, T*);       \
  template void MeanPoolForward<T>(const Compute&, const PoolingShape&,  \
                                   const T*, T*);                        \
  template void MeanPoolBackward<T>(const Compute&, const PoolingShape&, \
                                    const T*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster
