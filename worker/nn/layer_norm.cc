#include "worker/nn/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"
#include "worker/nn/dropout_mask.h"
#include "worker/nn/linear.h"

namespace ringmaster {
namespace {

// Independent partial sums, which let the compiler vectorize a sum without
// reordering it: four vectors of 512 bits of floats, to hide the latency of
// an addition.
constexpr int kLanes = 64;

// Elements that forward gives to a thread at once.
constexpr int64_t kForwardGrain = 16384;

// Backward's blocks of rows: each has its own sums of dgamma and dbeta.
constexpr int64_t kMaxBlocks = 32;
constexpr int64_t kMinBlockRows = 8;
constexpr int64_t kSumGrain = 256;

// Adds up the lanes, and what did not fill them.
template <typename T>
RM_KERNEL T SumOfLanes(T* lanes) {
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

template <typename T>
RM_KERNEL T SumOf(int64_t dim, const T* x) {
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += x[i + lane];
  }
  for (int lane = 0; i + lane < dim; ++lane) lanes[lane] += x[i + lane];
  return SumOfLanes(lanes);
}

template <typename T>
RM_KERNEL T SumOfSquaredDistances(int64_t dim, const T* x, T from) {
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const T distance = x[i + lane] - from;
      lanes[lane] += distance * distance;
    }
  }
  for (int lane = 0; i + lane < dim; ++lane) {
    const T distance = x[i + lane] - from;
    lanes[lane] += distance * distance;
  }
  return SumOfLanes(lanes);
}

template <typename T>
RM_KERNEL void AddKernel(int64_t count, const T* __restrict x,
                         const T* __restrict delta, T* __restrict sum) {
  for (int64_t i = 0; i < count; ++i) sum[i] = x[i] + delta[i];
}

template <typename T>
RM_KERNEL void AddDroppedKernel(int64_t count, DropoutMask mask, T scale,
                                uint32_t first, const T* __restrict x,
                                const T* __restrict delta, T* __restrict sum) {
  for (int64_t i = 0; i < count; ++i) {
    const T kept =
        IsKept(mask, first + static_cast<uint32_t>(i)) ? scale : T{0};
    sum[i] = x[i] + delta[i] * kept;
  }
}

// `mean` and `beta` are null if rows are not centred.
template <typename T>
RM_KERNEL void NormalizeKernel(int64_t dim, const T* __restrict sum,
                               const T* __restrict gamma,
                               const T* __restrict beta, T epsilon,
                               T* __restrict y, T* __restrict mean,
                               T* __restrict rstd) {
  const T count = static_cast<T>(dim);
  const T center = mean == nullptr ? T{0} : SumOf(dim, sum) / count;
  const T variance = SumOfSquaredDistances(dim, sum, center) / count;
  const T scale = T{1} / std::sqrt(variance + epsilon);
  *rstd = scale;
  if (mean == nullptr) {
    for (int64_t i = 0; i < dim; ++i) y[i] = sum[i] * scale * gamma[i];
    return;
  }
  for (int64_t i = 0; i < dim; ++i)
    y[i] = (sum[i] - center) * scale * gamma[i] + beta[i];
  *mean = center;
}

// The two means over a row that backward needs: of the gradient before gamma
// and beta, and of its product with the normalized row.
template <typename T>
struct RowMeans {
  T gradient;
  T product;
};

template <typename T>
RM_KERNEL RowMeans<T> MeansOfRow(int64_t dim, const T* __restrict dy,
                                 const T* __restrict sum,
                                 const T* __restrict gamma, T mean, T rstd) {
  T gradient[kLanes] = {};
  T product[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const T before = dy[i + lane] * gamma[i + lane];
      gradient[lane] += before;
      product[lane] += before * ((sum[i + lane] - mean) * rstd);
    }
  }
  for (int lane = 0; i + lane < dim; ++lane) {
    const T before = dy[i + lane] * gamma[i + lane];
    gradient[lane] += before;
    product[lane] += before * ((sum[i + lane] - mean) * rstd);
  }
  const T count = static_cast<T>(dim);
  return {SumOfLanes(gradient) / count, SumOfLanes(product) / count};
}

template <typename T>
RM_KERNEL void BackwardKernel(RowShape shape, const T* dy, const T* sum,
                              const T* __restrict gamma, const T* mean,
                              const T* rstd, T* dsum, T* __restrict dgamma,
                              T* __restrict dbeta) {
  const int64_t dim = shape.dim;
  for (int64_t row = 0; row < shape.rows; ++row) {
    const T* __restrict row_dy = dy + row * dim;
    const T* __restrict row_sum = sum + row * dim;
    T* __restrict row_dsum = dsum + row * dim;
    const T center = mean == nullptr ? T{0} : mean[row];
    const T scale = rstd[row];
    RowMeans<T> means = MeansOfRow(dim, row_dy, row_sum, gamma, center, scale);
    // The center that does not follow the row has no gradient.
    if (mean == nullptr) means.gradient = 0;
    for (int64_t i = 0; i < dim; ++i) {
      const T normalized = (row_sum[i] - center) * scale;
      dgamma[i] += row_dy[i] * normalized;
      dbeta[i] += row_dy[i];
      row_dsum[i] += scale * (row_dy[i] * gamma[i] - means.gradient -
                              normalized * means.product);
    }
  }
}

// Adds the blocks' sums in their order. `sums` is [blocks,stride].
template <typename T>
RM_KERNEL void SumBlocksKernel(int64_t blocks, int64_t stride, int64_t count,
                               bool add, const T* __restrict sums,
                               T* __restrict total) {
  if (!add) std::fill_n(total, count, T{0});
  for (int64_t block = 0; block < blocks; ++block) {
    for (int64_t i = 0; i < count; ++i) total[i] += sums[block * stride + i];
  }
}

int64_t BlockRows(int64_t rows) {
  return std::max(kMinBlockRows, (rows + kMaxBlocks - 1) / kMaxBlocks);
}

}  // namespace

template <typename T>
void ResidualLayerNormForward(const Compute& compute, RowShape shape,
                              const T* x, const T* delta,
                              const Dropout& dropout_of_delta, T* sum,
                              const T* gamma, const T* beta, double epsilon,
                              T* y, T* mean, T* rstd) {
  const int64_t dim = shape.dim;
  const T scale = static_cast<T>(DropoutScale(dropout_of_delta));
  const auto add = [&](int64_t begin) {
    if (dropout_of_delta.rate == 0) {
      CallOnCpuFma<AddKernel<T>>(dim, x + begin, delta + begin, sum + begin);
      return;
    }
    const int64_t per_sample = dropout_of_delta.elems_per_sample;
    const DropoutMask mask =
        DropoutMaskOf(dropout_of_delta, begin / per_sample);
    CallOnCpuFma<AddDroppedKernel<T>>(dim, mask, scale,
                                      static_cast<uint32_t>(begin % per_sample),
                                      x + begin, delta + begin, sum + begin);
  };
  const T* const normalized = delta == nullptr ? x : sum;
  const auto run = [&](int64_t first_row, int64_t end_row) {
    for (int64_t row = first_row; row < end_row; ++row) {
      if (delta != nullptr) add(row * dim);
      CallOnCpuFma<NormalizeKernel<T>>(
          dim, normalized + row * dim, gamma, beta, static_cast<T>(epsilon),
          y + row * dim, mean == nullptr ? nullptr : mean + row, rstd + row);
    }
  };
  compute.pool.ParallelFor(shape.rows,
                           std::max<int64_t>(1, kForwardGrain / dim), run);
}

int64_t LayerNormScratchElems(const Compute& /*compute*/, RowShape shape) {
  const int64_t blocks =
      std::min(kMaxBlocks, (shape.rows + kMinBlockRows - 1) / kMinBlockRows);
  return blocks * 2 * shape.dim;
}

template <typename T>
void LayerNormBackward(const Compute& compute, RowShape shape, Write write,
                       const T* dy, const T* sum, const T* gamma, const T* mean,
                       const T* rstd, T* scratch, T* dsum, T* dgamma, T* dbeta,
                       T* dsum_total) {
  const int64_t dim = shape.dim;
  const int64_t block_rows = BlockRows(shape.rows);
  const int64_t blocks = (shape.rows + block_rows - 1) / block_rows;
  // A block's scratch is its dgamma, then its dbeta.
  const int64_t stride = 2 * dim;
  const auto run = [&](int64_t first_row, int64_t end_row) {
    T* const sums = scratch + first_row / block_rows * stride;
    std::fill_n(sums, stride, T{0});
    CallOnCpuFma<BackwardKernel<T>>(
        RowShape{end_row - first_row, dim}, dy + first_row * dim,
        sum + first_row * dim, gamma,
        mean == nullptr ? nullptr : mean + first_row, rstd + first_row,
        dsum + first_row * dim, sums, sums + dim);
  };
  compute.pool.ParallelFor(shape.rows, block_rows, run);
  const T* const sums = scratch;
  const bool add = write == Write::kAdd;
  const auto add_up = [&](int64_t begin, int64_t end) {
    CallOnCpuFma<SumBlocksKernel<T>>(blocks, stride, end - begin, add,
                                     sums + begin, dgamma + begin);
    if (dbeta == nullptr) return;
    CallOnCpuFma<SumBlocksKernel<T>>(blocks, stride, end - begin, add,
                                     sums + dim + begin, dbeta + begin);
  };
  compute.pool.ParallelFor(dim, kSumGrain, add_up);
  if (dsum_total == nullptr) return;
  LinearBackwardBias<T>(compute, {.batch = shape.rows, .in = 0, .out = dim},
                        write, dsum, dsum_total);
}

#define RM_INSTANTIATE(T)                                                    \
  template void ResidualLayerNormForward<T>(                                 \
      const Compute&, RowShape, const T*, const T*, const Dropout&, T*,      \
      const T*, const T*, double, T*, T*, T*);                               \
  template void LayerNormBackward<T>(const Compute&, RowShape, Write,        \
                                     const T*, const T*, const T*, const T*, \
                                     const T*, T*, T*, T*, T*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster
