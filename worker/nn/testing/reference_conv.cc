#include "worker/nn/testing/reference_conv.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ringmaster::reference {
namespace {

// Calls use(x_index, weight_index, y_index) for each product of a convolution.
template <typename Use>
void ForEachProduct(const Conv2dShape& s, Use use) {
  const int64_t half = s.kernel / 2;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t row = 0; row < s.height; ++row) {
      for (int64_t column = 0; column < s.width; ++column) {
        for (int64_t i = 0; i < s.kernel; ++i) {
          for (int64_t j = 0; j < s.kernel; ++j) {
            const int64_t r = row + i - half;
            const int64_t c = column + j - half;
            if (r < 0 || r >= s.height || c < 0 || c >= s.width) continue;
            for (int64_t o = 0; o < s.out; ++o) {
              for (int64_t n = 0; n < s.in; ++n) {
                use(((b * s.height + r) * s.width + c) * s.in + n,
                    ((o * s.kernel + i) * s.kernel + j) * s.in + n,
                    ((b * s.height + row) * s.width + column) * s.out + o);
              }
            }
          }
        }
      }
    }
  }
}

template <typename T>
void Store(const std::vector<double>& sums, T* to) {
  for (size_t i = 0; i < sums.size(); ++i) to[i] = static_cast<T>(sums[i]);
}

// Index in x of the first of the four pixels that element `i` of y comes from.
int64_t FirstOfFour(const PoolingShape& s, int64_t i) {
  const int64_t channel = i % s.channels;
  const int64_t column = i / s.channels % (s.width / 2);
  const int64_t row = i / s.channels / (s.width / 2) % (s.height / 2);
  const int64_t sample = i / s.channels / (s.width / 2) / (s.height / 2);
  return ((sample * s.height + 2 * row) * s.width + 2 * column) * s.channels +
         channel;
}

int64_t PixelOfFour(const PoolingShape& s, int64_t first, int winner) {
  return first + (winner / 2 * s.width + winner % 2) * s.channels;
}

int64_t PooledElems(const PoolingShape& s) {
  return s.batch * (s.height / 2) * (s.width / 2) * s.channels;
}

}  // namespace

template <typename T>
void Conv2dForward(const Conv2dShape& shape, const T* x, const T* weight,
                   const T* bias, T* y) {
  std::vector<double> sums(static_cast<size_t>(shape.batch * shape.height *
                                               shape.width * shape.out));
  for (size_t i = 0; i < sums.size(); ++i)
    sums[i] = bias[i % static_cast<size_t>(shape.out)];
  ForEachProduct(shape, [&](int64_t at_x, int64_t at_weight, int64_t at_y) {
    sums[at_y] += static_cast<double>(x[at_x]) * weight[at_weight];
  });
  Store(sums, y);
}

template <typename T>
void Conv2dBackwardInput(const Conv2dShape& shape, const T* dy, const T* weight,
                         T* dx) {
  std::vector<double> sums(
      static_cast<size_t>(shape.batch * shape.height * shape.width * shape.in));
  ForEachProduct(shape, [&](int64_t at_x, int64_t at_weight, int64_t at_y) {
    sums[at_x] += static_cast<double>(dy[at_y]) * weight[at_weight];
  });
  Store(sums, dx);
}

template <typename T>
void Conv2dBackwardParameters(const Conv2dShape& shape, const T* dy, const T* x,
                              T* dweight, T* dbias) {
  std::vector<double> sums(
      static_cast<size_t>(shape.out * shape.kernel * shape.kernel * shape.in));
  std::vector<double> bias_sums(static_cast<size_t>(shape.out));
  ForEachProduct(shape, [&](int64_t at_x, int64_t at_weight, int64_t at_y) {
    sums[at_weight] += static_cast<double>(dy[at_y]) * x[at_x];
  });
  const int64_t pixels = shape.batch * shape.height * shape.width;
  for (int64_t i = 0; i < pixels * shape.out; ++i)
    bias_sums[i % shape.out] += dy[i];
  Store(sums, dweight);
  Store(bias_sums, dbias);
}

template <typename T>
void MaxPoolForward(const PoolingShape& shape, const T* x, T* y,
                    uint8_t* winners) {
  for (int64_t i = 0; i < PooledElems(shape); ++i) {
    const int64_t first = FirstOfFour(shape, i);
    int winner = 0;
    for (int other = 1; other < 4; ++other) {
      const T best = x[PixelOfFour(shape, first, winner)];
      const T value = x[PixelOfFour(shape, first, other)];
      if (value > best || std::isnan(value)) winner = other;
    }
    y[i] = x[PixelOfFour(shape, first, winner)];
    winners[i] = static_cast<uint8_t>(winner);
  }
}

template <typename T>
void MaxPoolBackward(const PoolingShape& shape, const T* dy,
                     const uint8_t* winners, T* dx) {
  std::fill_n(dx, shape.batch * shape.height * shape.width * shape.channels,
              T{0});
  for (int64_t i = 0; i < PooledElems(shape); ++i)
    dx[PixelOfFour(shape, FirstOfFour(shape, i), winners[i])] = dy[i];
}

template <typename T>
void ReluForward(int64_t count, T* x) {
  for (int64_t i = 0; i < count; ++i) {
    if (!(x[i] > 0) && !std::isnan(x[i])) x[i] = 0;
  }
}

template <typename T>
void ReluBackward(int64_t count, const T* y, const T* dy, T* dx) {
  for (int64_t i = 0; i < count; ++i) {
    const bool is_open = y[i] > 0 || std::isnan(y[i]);
    dx[i] = is_open ? dy[i] : 0;
  }
}

#define RM_INSTANTIATE(T)                                                      \
  template void Conv2dForward<T>(const Conv2dShape&, const T*, const T*,       \
                                 const T*, T*);                                \
  template void Conv2dBackwardInput<T>(const Conv2dShape&, const T*, const T*, \
                                       T*);                                    \
  template void Conv2dBackwardParameters<T>(const Conv2dShape&, const T*,      \
                                            const T*, T*, T*);                 \
  template void MaxPoolForward<T>(const PoolingShape&, const T*, T*,           \
                                  uint8_t*);                                   \
  template void MaxPoolBackward<T>(const PoolingShape&, const T*,              \
                                   const uint8_t*, T*);                        \
  template void ReluForward<T>(int64_t, T*);                                   \
  template void ReluBackward<T>(int64_t, const T*, const T*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster::reference
