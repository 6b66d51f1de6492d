#include <algorithm>

#include "worker/nn/cuda/column_sums.cuh"
#include "worker/nn/cuda/dropout_mask.cuh"
#include "worker/nn/cuda/kernel_parts.cuh"
#include "worker/nn/cuda/layer_norm.h"

namespace ringmaster::cuda {
namespace {

// Backward's blocks of rows: each has its own sums of dgamma and dbeta. As many
// as fill any GPU, with a few rows each.
constexpr int64_t kMaxBlocks = 1024;
constexpr int64_t kMinBlockRows = 4;

int64_t BlockRows(int64_t rows) {
  return std::max(kMinBlockRows, CeilDivide(rows, kMaxBlocks));
}

template <typename T>
struct Forward {
  RowShape shape;
  const T* x;
  const T* delta;  // or null
  DropoutKey dropout;
  int64_t rows_per_sample;
  T* sum;
  const T* gamma;
  const T* beta;
  float epsilon;
  T* y;
  float* mean;
  float* rstd;
};

// The elements of sum at `column` of `row`, rounded to T, and written if they are
// not x itself.
template <int kWidth, typename T>
__device__ Pack<kWidth, float> MakeSum(const Forward<T>& run, int64_t row,
                                       int64_t column, DropoutMask mask) {
  const int64_t at = row * run.shape.dim + column;
  Pack<kWidth, float> sum = LoadFloats<kWidth>(run.x + at);
  if (run.delta == nullptr) return sum;
  const Pack<kWidth, float> delta = LoadFloats<kWidth>(run.delta + at);
  const auto first =
      static_cast<uint32_t>(row % run.rows_per_sample * run.shape.dim + column);
  Pack<kWidth, T> rounded;
  for (int i = 0; i < kWidth; ++i) {
    const float kept = IsKept(mask, first + i) ? run.dropout.scale : 0.0f;
    rounded.elems[i] = RoundTo<T>(sum.elems[i] + delta.elems[i] * kept);
    sum.elems[i] = ToFloat(rounded.elems[i]);
  }
  StorePack(rounded, run.sum + at);
  return sum;
}

template <typename T>
__device__ DropoutMask MaskOfRow(const Forward<T>& run, int64_t row) {
  return run.delta == nullptr
             ? DropoutMask()
             : DropoutMaskOf(run.dropout, row / run.rows_per_sample);
}

template <int kWidth, typename T>
__device__ void Normalize(const Forward<T>& run, const Pack<kWidth, float>& sum,
                          float mean, float rstd, int64_t row, int64_t column) {
  const auto gamma = LoadFloats<kWidth>(run.gamma + column);
  const auto beta = LoadFloats<kWidth>(run.beta + column);
  Pack<kWidth, float> y;
  for (int i = 0; i < kWidth; ++i) {
    y.elems[i] = (sum.elems[i] - mean) * rstd * gamma.elems[i] + beta.elems[i];
  }
  StoreFloats(y, run.y + row * run.shape.dim + column);
}

// The statistics of a row. Called by all threads of a block, each with its part
// of the row: element(f) calls f for each of the part.
template <typename EachElement>
__device__ float2 Statistics(int64_t dim, float epsilon, float* warps,
                             const EachElement& each) {
  float sum = 0;
  each([&](float x) { sum += x; });
  const float mean = BlockSum(sum, warps) / static_cast<float>(dim);
  float squares = 0;
  each([&](float x) { squares += (x - mean) * (x - mean); });
  const float variance =
      BlockSum(squares, warps + kMaxWarps) / static_cast<float>(dim);
  return {mean, 1.0f / sqrtf(variance + epsilon)};
}

// A block for each row, of which each thread keeps one pack.
template <int kWidth, typename T>
__global__ void __launch_bounds__(kMaxThreads) ForwardKernel(Forward<T> run) {
  __shared__ float warps[2 * kMaxWarps];
  const int64_t row = blockIdx.x;
  const int64_t column = static_cast<int64_t>(threadIdx.x) * kWidth;
  const bool has_part = column < run.shape.dim;
  Pack<kWidth, float> sum;
  if (has_part) sum = MakeSum<kWidth>(run, row, column, MaskOfRow(run, row));
  const float2 statistics =
      Statistics(run.shape.dim, run.epsilon, warps, [&](auto use) {
        for (int i = 0; has_part && i < kWidth; ++i) use(sum.elems[i]);
      });
  if (has_part) Normalize(run, sum, statistics.x, statistics.y, row, column);
  if (threadIdx.x == 0) {
    run.mean[row] = statistics.x;
    run.rstd[row] = statistics.y;
  }
}

// For rows of any length: what has been written is read again.
template <typename T>
__global__ void __launch_bounds__(kMaxThreads)
    ForwardAnyKernel(Forward<T> run) {
  __shared__ float warps[2 * kMaxWarps];
  const int64_t row = blockIdx.x;
  const int64_t dim = run.shape.dim;
  const T* const sum = (run.delta == nullptr ? run.x : run.sum) + row * dim;
  const DropoutMask mask = MaskOfRow(run, row);
  for (int64_t i = threadIdx.x; i < dim; i += blockDim.x)
    MakeSum<1>(run, row, i, mask);
  const float2 statistics = Statistics(dim, run.epsilon, warps, [&](auto use) {
    for (int64_t i = threadIdx.x; i < dim; i += blockDim.x)
      use(ToFloat(sum[i]));
  });
  for (int64_t i = threadIdx.x; i < dim; i += blockDim.x) {
    Normalize(run, LoadFloats<1>(sum + i), statistics.x, statistics.y, row, i);
  }
  if (threadIdx.x == 0) {
    run.mean[row] = statistics.x;
    run.rstd[row] = statistics.y;
  }
}

template <typename T>
struct Backward {
  RowShape shape;
  int64_t block_rows;
  const T* dy;
  const T* sum;
  const T* gamma;
  const float* mean;
  const float* rstd;
  float* block_sums;  // [blocks, 2, dim]: of dgamma, then of dbeta
  T* dsum;
};

// The two means over a row that its gradient needs: of the gradient before gamma
// and beta, and of its product with the normalized row. Two places of `warps`
// take turns, so that a row costs one __syncthreads().
__device__ float2 RowMeans(int64_t dim, float gradient, float product,
                           int64_t row, float2* warps) {
  float2* const own = warps + row % 2 * kMaxWarps;
  const float2 of_warp = {WarpSum(gradient), WarpSum(product)};
  if (threadIdx.x % kWarpThreads == 0)
    own[threadIdx.x / kWarpThreads] = of_warp;
  __syncthreads();
  float2 sums = own[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarpThreads; ++warp) {
    sums.x += own[warp].x;
    sums.y += own[warp].y;
  }
  const float count = static_cast<float>(dim);
  return {sums.x / count, sums.y / count};
}

// A block for each block of rows; each thread keeps one pack of columns.
template <int kWidth, typename T>
__global__ void __launch_bounds__(kMaxThreads) BackwardKernel(Backward<T> run) {
  __shared__ float2 warps[2 * kMaxWarps];
  const int64_t dim = run.shape.dim;
  const int64_t column = static_cast<int64_t>(threadIdx.x) * kWidth;
  const bool has_part = column < dim;
  const int64_t begin = blockIdx.x * run.block_rows;
  const int64_t end = std::min(begin + run.block_rows, run.shape.rows);
  Pack<kWidth, float> gamma = {};
  Pack<kWidth, float> dgamma = {};
  Pack<kWidth, float> dbeta = {};
  if (has_part) gamma = LoadFloats<kWidth>(run.gamma + column);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t at = row * dim + column;
    const float rstd = run.rstd[row];
    Pack<kWidth, float> dy = {};
    Pack<kWidth, float> normalized = {};
    Pack<kWidth, float> dsum = {};
    float gradient = 0;
    float product = 0;
    if (has_part) {
      const float mean = run.mean[row];
      dy = LoadFloats<kWidth>(run.dy + at);
      normalized = LoadFloats<kWidth>(run.sum + at);
      dsum = LoadFloats<kWidth>(run.dsum + at);
      for (int i = 0; i < kWidth; ++i) {
        normalized.elems[i] = (normalized.elems[i] - mean) * rstd;
        gradient += dy.elems[i] * gamma.elems[i];
        product += dy.elems[i] * gamma.elems[i] * normalized.elems[i];
        dgamma.elems[i] += dy.elems[i] * normalized.elems[i];
        dbeta.elems[i] += dy.elems[i];
      }
    }
    const float2 means = RowMeans(dim, gradient, product, row, warps);
    if (!has_part) continue;
    for (int i = 0; i < kWidth; ++i) {
      dsum.elems[i] += rstd * (dy.elems[i] * gamma.elems[i] - means.x -
                               normalized.elems[i] * means.y);
    }
    StoreFloats(dsum, run.dsum + at);
  }
  if (!has_part) return;
  float* const sums = run.block_sums + blockIdx.x * 2 * dim + column;
  for (int i = 0; i < kWidth; ++i) {
    sums[i] = dgamma.elems[i];
    sums[dim + i] = dbeta.elems[i];
  }
}

// For rows of any length: the block's sums are where they will be read.
template <typename T>
__global__ void __launch_bounds__(kMaxThreads)
    BackwardAnyKernel(Backward<T> run) {
  __shared__ float2 warps[2 * kMaxWarps];
  const int64_t dim = run.shape.dim;
  const int64_t begin = blockIdx.x * run.block_rows;
  const int64_t end = std::min(begin + run.block_rows, run.shape.rows);
  float* const dgamma = run.block_sums + blockIdx.x * 2 * dim;
  float* const dbeta = dgamma + dim;
  for (int64_t row = begin; row < end; ++row) {
    const T* const dy = run.dy + row * dim;
    const T* const sum = run.sum + row * dim;
    T* const dsum = run.dsum + row * dim;
    const float mean = run.mean[row];
    const float rstd = run.rstd[row];
    float gradient = 0;
    float product = 0;
    for (int64_t i = threadIdx.x; i < dim; i += blockDim.x) {
      const float before = ToFloat(dy[i]) * ToFloat(run.gamma[i]);
      const float normalized = (ToFloat(sum[i]) - mean) * rstd;
      gradient += before;
      product += before * normalized;
      dgamma[i] =
          (row == begin ? 0.0f : dgamma[i]) + ToFloat(dy[i]) * normalized;
      dbeta[i] = (row == begin ? 0.0f : dbeta[i]) + ToFloat(dy[i]);
    }
    const float2 means = RowMeans(dim, gradient, product, row, warps);
    for (int64_t i = threadIdx.x; i < dim; i += blockDim.x) {
      const float before = ToFloat(dy[i]) * ToFloat(run.gamma[i]);
      const float normalized = (ToFloat(sum[i]) - mean) * rstd;
      dsum[i] = RoundTo<T>(ToFloat(dsum[i]) +
                           rstd * (before - means.x - normalized * means.y));
    }
  }
}

// Whether the kernels that keep a pack of each row in each thread will do.
template <typename T, typename... Pointers>
bool FitsBlock(int64_t dim, const Pointers*... pointers) {
  return ArePacked(pointers...) && dim % kPackElems<T> == 0 &&
         dim / kPackElems<T> <= kMaxThreads;
}

}  // namespace

template <typename T>
void ResidualLayerNormForward(CudaStream& stream, RowShape shape, const T* x,
                              const T* delta,
                              const DeviceDropout& dropout_of_delta, T* sum,
                              const T* gamma, const T* beta, double epsilon,
                              T* y, float* mean, float* rstd) {
  if (shape.rows == 0) return;  // a grid of 0 blocks is an error
  const int64_t rows_per_sample =
      dropout_of_delta.rate == 0
          ? shape.rows
          : dropout_of_delta.elems_per_sample / shape.dim;
  const Forward<T> run = {
      shape, x,     delta, DropoutKeyOf(dropout_of_delta), rows_per_sample,
      sum,   gamma, beta,  static_cast<float>(epsilon),    y,
      mean,  rstd};
  const auto blocks = static_cast<unsigned>(shape.rows);
  if (FitsBlock<T>(shape.dim, x, delta, sum, gamma, beta, y)) {
    constexpr int kWidth = kPackElems<T>;
    stream.Check(LaunchKernel(ForwardKernel<kWidth, T>, dim3(blocks),
                              dim3(BlockThreads(shape.dim / kWidth)), 0,
                              stream.get(), run),
                 "layer_norm_forward");
  } else {
    stream.Check(
        LaunchKernel(ForwardAnyKernel<T>, dim3(blocks),
                     dim3(BlockThreads(shape.dim)), 0, stream.get(), run),
        "layer_norm_forward");
  }
}

int64_t LayerNormBackwardScratchElems(RowShape shape) {
  const int64_t blocks =
      std::min(kMaxBlocks, CeilDivide(shape.rows, kMinBlockRows));
  return blocks * 2 * shape.dim;
}

template <typename T>
void LayerNormBackward(CudaStream& stream, RowShape shape, Write write,
                       const T* dy, const T* sum, const T* gamma,
                       const float* mean, const float* rstd, float* scratch,
                       T* dsum, float* dgamma, float* dbeta) {
  const int64_t dim = shape.dim;
  const int64_t block_rows = BlockRows(shape.rows);
  const int64_t blocks = CeilDivide(shape.rows, block_rows);
  if (blocks > 0) {
    const Backward<T> run = {shape, block_rows, dy,      sum, gamma,
                             mean,  rstd,       scratch, dsum};
    const dim3 grid(static_cast<unsigned>(blocks));
    if (FitsBlock<T>(dim, dy, sum, gamma, dsum)) {
      constexpr int kWidth = kPackElems<T>;
      stream.Check(
          LaunchKernel(BackwardKernel<kWidth, T>, grid,
                       dim3(BlockThreads(dim / kWidth)), 0, stream.get(), run),
          "layer_norm_backward");
    } else {
      stream.Check(LaunchKernel(BackwardAnyKernel<T>, grid,
                                dim3(BlockThreads(dim)), 0, stream.get(), run),
                   "layer_norm_backward");
    }
  }
  const ColumnSums sums = {blocks, dim, 2 * dim};
  stream.Check(LaunchSumColumns(stream.get(), sums, write, scratch, dgamma),
               "layer_norm_backward of gamma");
  stream.Check(
      LaunchSumColumns(stream.get(), sums, write, scratch + dim, dbeta),
      "layer_norm_backward of beta");
}

#define RM_INSTANTIATE(T)                                                  \
  template void ResidualLayerNormForward<T>(                               \
      CudaStream&, RowShape, const T*, const T*, const DeviceDropout&, T*, \
      const T*, const T*, double, T*, float*, float*);                     \
  template void LayerNormBackward<T>(                                      \
      CudaStream&, RowShape, Write, const T*, const T*, const T*,          \
      const float*, const float*, float*, T*, float*, float*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
