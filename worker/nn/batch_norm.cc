#include "worker/nn/batch_norm.h"

#include <cmath>

#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"
#include "worker/nn/classifier.h"

namespace ringmaster {
namespace {

// Blocks of a group's rows at most; each has its own sums.
constexpr int64_t kMaxBlocks = 32;
constexpr int64_t kMinBlockRows = 8;
// Channels whose sums a kernel keeps in registers.
constexpr int64_t kLanes = 64;
// Rows that are summed before their sum is added to that of others: sums of
// many floats lose less so.
constexpr int64_t kRowsAtOnce = 256;
constexpr int64_t kChannelGrain = 256;

using Shape = BatchNormShape;

int64_t BlockRows(int64_t rows) {
  return std::max(kMinBlockRows, (rows + kMaxBlocks - 1) / kMaxBlocks);
}

// Mean and sum of squared distances from it, of each channel of some rows. The
// first row is subtracted first, so that little is lost where a mean is large.
template <typename T, typename Width>
RM_KERNEL void StatisticsOfLanes(int64_t rows, int64_t stride, Width width,
                                 const T* __restrict x, T* __restrict mean,
                                 T* __restrict squares) {
  T sum[kLanes] = {};
  T square[kLanes] = {};
  for (int64_t begin = 0; begin < rows; begin += kRowsAtOnce) {
    const int64_t end = std::min(rows, begin + kRowsAtOnce);
    T part[kLanes] = {};
    T square_part[kLanes] = {};
    for (int64_t row = begin; row < end; ++row) {
      const T* const at = x + row * stride;
      for (int64_t i = 0; i < width; ++i) {
        const T distance = at[i] - x[i];
        part[i] += distance;
        square_part[i] += distance * distance;
      }
    }
    for (int64_t i = 0; i < width; ++i) sum[i] += part[i];
    for (int64_t i = 0; i < width; ++i) square[i] += square_part[i];
  }
  const T count = static_cast<T>(rows);
  for (int64_t i = 0; i < width; ++i) {
    mean[i] = x[i] + sum[i] / count;
    squares[i] = square[i] - sum[i] * sum[i] / count;
  }
}

// A width that the compiler knows.
struct AllLanes {
  constexpr operator int64_t() const { return kLanes; }  // NOLINT: implicit
};

template <typename T>
RM_KERNEL void StatisticsKernel(int64_t rows, int64_t channels, const T* x,
                                T* mean, T* squares) {
  int64_t i = 0;
  for (; i + kLanes <= channels; i += kLanes) {
    StatisticsOfLanes<T>(rows, channels, AllLanes(), x + i, mean + i,
                         squares + i);
  }
  if (i < channels) {
    StatisticsOfLanes<T>(rows, channels, channels - i, x + i, mean + i,
                         squares + i);
  }
}

template <typename T, bool kHasBranch, bool kRectifies>
RM_KERNEL void NormalizeKernel(int64_t rows, int64_t channels,
                               const T* __restrict x,
                               const T* __restrict branch,
                               const T* __restrict mean,
                               const T* __restrict factor,
                               const T* __restrict beta, T* __restrict y) {
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t at = row * channels;
    for (int64_t i = 0; i < channels; ++i) {
      T value = (x[at + i] - mean[i]) * factor[i] + beta[i];
      if (kHasBranch) value += branch[at + i];
      // Such that a NaN stays one.
      if (kRectifies) value = value <= T{0} ? T{0} : value;
      y[at + i] = value;
    }
  }
}

// The sums over some rows of the gradient, and of its product with the distance
// from the mean. `sums` is [2,channels].
template <typename T, bool kRectifies, bool kHasBranch, typename Width>
RM_KERNEL void GradientsOfLanes(int64_t rows, int64_t stride, Width width,
                                const T* dy, const T* __restrict y,
                                const T* __restrict x, const T* __restrict mean,
                                T* dbranch, T* __restrict sums,
                                T* __restrict products) {
  T sum[kLanes] = {};
  T product[kLanes] = {};
  for (int64_t begin = 0; begin < rows; begin += kRowsAtOnce) {
    const int64_t end = std::min(rows, begin + kRowsAtOnce);
    T part[kLanes] = {};
    T product_part[kLanes] = {};
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = row * stride;
      // dbranch may be dy.
      T gradient[kLanes];
      for (int64_t i = 0; i < width; ++i)
        gradient[i] = kRectifies && y[at + i] <= T{0} ? T{0} : dy[at + i];
      for (int64_t i = 0; kHasBranch && i < width; ++i)
        dbranch[at + i] = gradient[i];
      for (int64_t i = 0; i < width; ++i) {
        part[i] += gradient[i];
        product_part[i] += gradient[i] * (x[at + i] - mean[i]);
      }
    }
    for (int64_t i = 0; i < width; ++i) sum[i] += part[i];
    for (int64_t i = 0; i < width; ++i) product[i] += product_part[i];
  }
  for (int64_t i = 0; i < width; ++i) {
    sums[i] = sum[i];
    products[i] = product[i];
  }
}

template <typename T, bool kRectifies, bool kHasBranch>
RM_KERNEL void GradientsKernel(int64_t rows, int64_t channels, const T* dy,
                               const T* y, const T* x, const T* mean,
                               T* dbranch, T* sums) {
  T* const products = sums + channels;
  const auto part = [=](int64_t i, auto width) __attribute__((always_inline)) {
    GradientsOfLanes<T, kRectifies, kHasBranch>(
        rows, channels, width, dy + i, kRectifies ? y + i : nullptr, x + i,
        mean + i, kHasBranch ? dbranch + i : nullptr, sums + i, products + i);
  };
  int64_t i = 0;
  for (; i + kLanes <= channels; i += kLanes) part(i, AllLanes());
  if (i < channels) part(i, channels - i);
}

// dx = factor * gradient - shift - slope * (x - mean), for some channels of a
// row; dx may be dy.
template <typename T, bool kRectifies, typename Width>
RM_KERNEL void InputLanes(Width width, const T* dy, const T* __restrict y,
                          const T* __restrict x, const T* __restrict mean,
                          const T* __restrict factor, const T* __restrict shift,
                          const T* __restrict slope, T* dx) {
  T gradient[kLanes];
  for (int64_t i = 0; i < width; ++i)
    gradient[i] = kRectifies && y[i] <= T{0} ? T{0} : dy[i];
  for (int64_t i = 0; i < width; ++i) {
    gradient[i] =
        factor[i] * gradient[i] - shift[i] - slope[i] * (x[i] - mean[i]);
  }
  for (int64_t i = 0; i < width; ++i) dx[i] = gradient[i];
}

template <typename T, bool kRectifies>
RM_KERNEL void InputKernel(int64_t rows, int64_t channels, const T* dy,
                           const T* y, const T* x, const T* mean,
                           const T* factor, const T* shift, const T* slope,
                           T* dx) {
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t line = row * channels;
    const auto part = [=](int64_t i, auto width)
        __attribute__((always_inline)) {
      const int64_t at = line + i;
      InputLanes<T, kRectifies>(width, dy + at, kRectifies ? y + at : nullptr,
                                x + at, mean + i, factor + i, shift + i,
                                slope + i, dx + at);
    };
    int64_t i = 0;
    for (; i + kLanes <= channels; i += kLanes) part(i, AllLanes());
    if (i < channels) part(i, channels - i);
  }
}

// Calls run(first row, rows, block) for the blocks of `rows` rows.
template <typename Run>
void ForEachBlock(const Compute& compute, int64_t rows, const Run& run) {
  const int64_t block_rows = BlockRows(rows);
  compute.pool.ParallelFor(rows, block_rows, [&](int64_t begin, int64_t end) {
    run(begin, end - begin, begin / block_rows);
  });
}

// A running variance may be below 0: asynchronous workers measure their ways
// from a value that is outdated, and all of these together may lead too far. 0
// stands for it; a NaN stays one.
template <typename T>
T InverseDeviation(T variance, double epsilon) {
  const T least = variance < T{0} ? T{0} : variance;
  return T{1} / std::sqrt(least + static_cast<T>(epsilon));
}

// factor [channels] =
template <typename T>
void Factors(const Shape& shape, const T* gamma, const T* variance, T* factor) {
  for (int64_t i = 0; i < shape.channels; ++i)
    factor[i] = gamma[i] * InverseDeviation(variance[i], shape.epsilon);
}

// y of `rows` rows.
template <typename T>
void Normalize(const Compute& compute, int64_t rows, int64_t channels,
               const T* x, const T* mean, const T* factor, const T* beta,
               const T* branch, bool rectifies, T* y) {
  ForEachBlock(compute, rows, [&](int64_t first, int64_t count, int64_t) {
    const int64_t at = first * channels;
    const auto run = [&]<bool kHasBranch, bool kRectifies>() {
      CallOnCpuFma<NormalizeKernel<T, kHasBranch, kRectifies>>(
          count, channels, x + at, kHasBranch ? branch + at : nullptr, mean,
          factor, beta, y + at);
    };
    if (branch != nullptr) {
      rectifies ? run.template operator()<true, true>()
                : run.template operator()<true, false>();
    } else {
      rectifies ? run.template operator()<false, true>()
                : run.template operator()<false, false>();
    }
  });
}

// Combines the blocks' statistics in their order (Chan, Golub and LeVeque,
// 1979).
template <typename T>
void CombineStatistics(const Compute& compute, const Shape& shape, int64_t rows,
                       const T* blocks, T* mean, T* variance) {
  const int64_t channels = shape.channels;
  const int64_t block_rows = BlockRows(rows);
  compute.pool.ParallelFor(
      channels, kChannelGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          double center = 0;
          double squares = 0;
          double count = 0;
          for (int64_t first = 0; first < rows; first += block_rows) {
            const T* const block = blocks + first / block_rows * 2 * channels;
            const auto more =
                static_cast<double>(std::min(block_rows, rows - first));
            const double distance = block[i] - center;
            const double all = count + more;
            squares +=
                block[channels + i] + distance * distance * count * more / all;
            center += distance * more / all;
            count = all;
          }
          mean[i] = static_cast<T>(center);
          variance[i] = static_cast<T>(std::max(0.0, squares) / count);
          // The comparison hides a NaN.
          if (std::isnan(squares)) variance[i] = static_cast<T>(squares);
        }
      });
}

template <typename T>
void AddBlocks(const Compute& compute, int64_t blocks, int64_t count, T* sums) {
  compute.pool.ParallelFor(count, kChannelGrain,
                           [&](int64_t begin, int64_t end) {
                             for (int64_t block = 1; block < blocks; ++block) {
                               for (int64_t i = begin; i < end; ++i)
                                 sums[i] += sums[block * count + i];
                             }
                           });
}

// One group's part of BatchNormBackward.
template <typename T>
struct GroupBackward {
  const Compute& compute;
  const Shape& shape;
  int64_t rows;
  const T* dy;
  const T* y;
  const T* x;
  const T* gamma;
  const T* mean;
  const T* variance;
  T* sums;          // [kMaxBlocks,2,channels]
  T* coefficients;  // [3,channels]
  T* dx;
  T* dbranch;

  void SumGradients() {
    const int64_t channels = shape.channels;
    ForEachBlock(
        compute, rows, [&](int64_t first, int64_t count, int64_t block) {
          const int64_t at = first * channels;
          const auto run = [&]<bool kRectifies, bool kHasBranch>() {
            CallOnCpuFma<GradientsKernel<T, kRectifies, kHasBranch>>(
                count, channels, dy + at, kRectifies ? y + at : nullptr, x + at,
                mean, kHasBranch ? dbranch + at : nullptr,
                sums + block * 2 * channels);
          };
          if (y != nullptr) {
            dbranch != nullptr ? run.template operator()<true, true>()
                               : run.template operator()<true, false>();
          } else {
            dbranch != nullptr ? run.template operator()<false, true>()
                               : run.template operator()<false, false>();
          }
        });
    const int64_t blocks = (rows + BlockRows(rows) - 1) / BlockRows(rows);
    AddBlocks<T>(compute, blocks, 2 * channels, sums);
  }

  void Parameters(Write write, T* dgamma, T* dbeta) {
    const int64_t channels = shape.channels;
    const T count = static_cast<T>(rows);
    for (int64_t i = 0; i < channels; ++i) {
      const T scale = InverseDeviation(variance[i], shape.epsilon);
      const T factor = gamma[i] * scale;
      const T dg = sums[channels + i] * scale;
      dgamma[i] = write == Write::kAdd ? dgamma[i] + dg : dg;
      dbeta[i] = write == Write::kAdd ? dbeta[i] + sums[i] : sums[i];
      coefficients[i] = factor;
      coefficients[channels + i] = factor * (sums[i] / count);
      coefficients[2 * channels + i] = factor * scale * (dg / count);
    }
  }

  void Input() {
    const int64_t channels = shape.channels;
    // The branch's gradient is rectified already.
    const T* const from = dbranch == nullptr ? dy : dbranch;
    const T* const rectified = dbranch == nullptr ? y : nullptr;
    ForEachBlock(compute, rows, [&](int64_t first, int64_t count, int64_t) {
      const int64_t at = first * channels;
      const auto run = [&]<bool kRectifies>() {
        CallOnCpuFma<InputKernel<T, kRectifies>>(
            count, channels, from + at, kRectifies ? rectified + at : nullptr,
            x + at, mean, coefficients, coefficients + channels,
            coefficients + 2 * channels, dx + at);
      };
      rectified != nullptr ? run.template operator()<true>()
                           : run.template operator()<false>();
    });
  }
};

}  // namespace

int64_t BatchNormScratchElems(const Compute& /*compute*/,
                              const BatchNormShape& shape) {
  return (2 * kMaxBlocks + 3) * shape.channels;
}

template <typename T>
void BatchNormForward(const Compute& compute, const BatchNormShape& shape,
                      const T* x, const T* gamma, const T* beta,
                      const BatchNormNext<T>& next, T* scratch, T* y, T* mean,
                      T* variance) {
  const int64_t channels = shape.channels;
  for (int64_t group = 0; group < shape.groups(); ++group) {
    const int64_t rows = shape.rows_of(group);
    const int64_t at = shape.first_row_of(group) * channels;
    T* const group_mean = mean + group * channels;
    T* const group_variance = variance + group * channels;
    ForEachBlock(
        compute, rows, [&](int64_t first, int64_t count, int64_t block) {
          T* const to = scratch + block * 2 * channels;
          CallOnCpuFma<StatisticsKernel<T>>(
              count, channels, x + at + first * channels, to, to + channels);
        });
    CombineStatistics<T>(compute, shape, rows, scratch, group_mean,
                         group_variance);
    Factors<T>(shape, gamma, group_variance, scratch);
    Normalize<T>(compute, rows, channels, x + at, group_mean, scratch, beta,
                 next.branch == nullptr ? nullptr : next.branch + at,
                 next.rectifies, y + at);
  }
}

template <typename T>
void BatchNormPredict(const Compute& compute, const BatchNormShape& shape,
                      const T* x, const T* gamma, const T* beta,
                      const T* running_mean, const T* running_variance,
                      const BatchNormNext<T>& next, T* scratch, T* y) {
  Factors<T>(shape, gamma, running_variance, scratch);
  Normalize<T>(compute, shape.batch * shape.pixels, shape.channels, x,
               running_mean, scratch, beta, next.branch, next.rectifies, y);
}

template <typename T>
void BatchNormTrack(const Compute& /*compute*/, const BatchNormShape& shape,
                    const LossTerms& terms, Write write, const T* mean,
                    const T* variance, const T* running_mean,
                    const T* running_variance, T* dmean, T* dvariance) {
  const int64_t channels = shape.channels;
  if (write == Write::kSet) {
    std::fill_n(dmean, channels, T{0});
    std::fill_n(dvariance, channels, T{0});
  }
  for (int64_t group = 0; group < shape.groups(); ++group) {
    const auto rows = static_cast<double>(shape.rows_of(group));
    const auto weight =
        static_cast<T>(terms.scale * rows / static_cast<double>(shape.pixels));
    const auto unbiased = static_cast<T>(rows > 1 ? rows / (rows - 1) : 1);
    for (int64_t i = 0; i < channels; ++i) {
      const int64_t at = group * channels + i;
      dmean[i] += weight * (running_mean[i] - mean[at]);
      dvariance[i] += weight * (running_variance[i] - unbiased * variance[at]);
    }
  }
}

template <typename T>
void BatchNormBackward(const Compute& compute, const BatchNormShape& shape,
                       Write write, const T* dy, const T* y, const T* x,
                       const T* gamma, const T* mean, const T* variance,
                       T* scratch, T* dx, T* dgamma, T* dbeta, T* dbranch) {
  const int64_t channels = shape.channels;
  if (shape.batch == 0 && write == Write::kSet) {
    std::fill_n(dgamma, channels, T{0});
    std::fill_n(dbeta, channels, T{0});
  }
  for (int64_t group = 0; group < shape.groups(); ++group) {
    const int64_t at = shape.first_row_of(group) * channels;
    GroupBackward<T> backward = {
        .compute = compute,
        .shape = shape,
        .rows = shape.rows_of(group),
        .dy = dy + at,
        .y = y == nullptr ? nullptr : y + at,
        .x = x + at,
        .gamma = gamma,
        .mean = mean + group * channels,
        .variance = variance + group * channels,
        .sums = scratch,
        .coefficients = scratch + 2 * kMaxBlocks * channels,
        .dx = dx + at,
        .dbranch = dbranch == nullptr ? nullptr : dbranch + at};
    backward.SumGradients();
    backward.Parameters(group == 0 ? write : Write::kAdd, dgamma, dbeta);
    backward.Input();
  }
}

#define RM_INSTANTIATE(T)                                                      \
  template void BatchNormForward<T>(const Compute&, const BatchNormShape&,     \
                                    const T*, const T*, const T*,              \
                                    const BatchNormNext<T>&, T*, T*, T*, T*);  \
  template void BatchNormPredict<T>(                                           \
      const Compute&, const BatchNormShape&, const T*, const T*, const T*,     \
      const T*, const T*, const BatchNormNext<T>&, T*, T*);                    \
  template void BatchNormTrack<T>(const Compute&, const BatchNormShape&,       \
                                  const LossTerms&, Write, const T*, const T*, \
                                  const T*, const T*, T*, T*);                 \
  template void BatchNormBackward<T>(                                          \
      const Compute&, const BatchNormShape&, Write, const T*, const T*,        \
      const T*, const T*, const T*, const T*, T*, T*, T*, T*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster
