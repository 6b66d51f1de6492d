#include <algorithm>
#include <iterator>

#include "worker/nn/cuda/column_sums.cuh"
#include "worker/nn/cuda/dropout_mask.cuh"
#include "worker/nn/cuda/kernel_parts.cuh"
#include "worker/nn/cuda/layer_norm.h"

namespace ringmaster::cuda {
namespace {

// The sums over rows that backward computes: the gradients of gamma and beta,
// and dsum as it is written.
enum Sum { kGammaSum, kBetaSum, kDsumSum, kSums };

// Backward's blocks of rows: each has sums of its own. As many as fill any GPU,
// with a few rows each.
constexpr int64_t kMaxBlocks = 1024;
constexpr int64_t kMinBlockRows = 4;

// The most threads with which backward's blocks have the registers that they
// want.
constexpr int kFewThreads = 256;

// The rows that a block of forward treats at once, with a warp for each; a
// thread keeps up to kMaxPacks packs of its row.
constexpr int kRowWarps = 4;
constexpr int64_t kMaxPacks = 4;

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
  float* mean;  // null if rows are not centred
  float* rstd;
};

// The elements of sum at `column` of `row`, rounded to T, and written if they
// are not x itself.
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
  Pack<kWidth, float> beta = {};
  if (run.beta != nullptr) beta = LoadFloats<kWidth>(run.beta + column);
  Pack<kWidth, float> y;
  for (int i = 0; i < kWidth; ++i) {
    y.elems[i] = (sum.elems[i] - mean) * rstd * gamma.elems[i] + beta.elems[i];
  }
  StoreFloats(y, run.y + row * run.shape.dim + column);
}

// The statistics of a row; the mean is 0 if rows are not centred. Called by all
// threads of a block, each with its part of the row: element(f) calls f for each
// of the part.
template <typename T, typename EachElement>
__device__ float2 Statistics(const Forward<T>& run, float* warps,
                             const EachElement& each) {
  const float count = static_cast<float>(run.shape.dim);
  float mean = 0;
  if (run.mean != nullptr) {
    float sum = 0;
    each([&](float x) { sum += x; });
    mean = BlockSum(sum, warps) / count;
  }
  float squares = 0;
  each([&](float x) { squares += (x - mean) * (x - mean); });
  const float variance = BlockSum(squares, warps + kMaxWarps) / count;
  return {mean, 1.0f / sqrtf(variance + run.epsilon)};
}

template <typename T>
__device__ void StoreStatistics(const Forward<T>& run, int64_t row, float mean,
                                float rstd) {
  if (run.mean != nullptr) run.mean[row] = mean;
  run.rstd[row] = rstd;
}

// A warp for each row, of which each thread keeps kPacks packs: all of them are
// loaded before anything waits, and no warp waits for another.
template <int kPacks, int kWidth, typename T>
__global__ void __launch_bounds__(kRowWarps* kWarpThreads)
    ForwardRowKernel(Forward<T> run) {
  const int64_t row =
      static_cast<int64_t>(blockIdx.x) * kRowWarps + threadIdx.x / kWarpThreads;
  if (row >= run.shape.rows) return;
  const int64_t dim = run.shape.dim;
  const DropoutMask mask = MaskOfRow(run, row);
  const auto column_of = [](int pack) {
    return (static_cast<int64_t>(pack) * kWarpThreads +
            threadIdx.x % kWarpThreads) *
           kWidth;
  };
  Pack<kWidth, float> sums[kPacks];
  float total = 0;
#pragma unroll
  for (int pack = 0; pack < kPacks; ++pack) {
    sums[pack] = {};
    if (column_of(pack) < dim)
      sums[pack] = MakeSum<kWidth>(run, row, column_of(pack), mask);
    for (int i = 0; i < kWidth; ++i) total += sums[pack].elems[i];
  }
  const float mean =
      run.mean == nullptr ? 0.0f : WarpSum(total) / static_cast<float>(dim);
  float squares = 0;
#pragma unroll
  for (int pack = 0; pack < kPacks; ++pack) {
    for (int i = 0; column_of(pack) < dim && i < kWidth; ++i) {
      const float centred = sums[pack].elems[i] - mean;
      squares += centred * centred;
    }
  }
  const float variance = WarpSum(squares) / static_cast<float>(dim);
  const float rstd = 1.0f / sqrtf(variance + run.epsilon);
#pragma unroll
  for (int pack = 0; pack < kPacks; ++pack) {
    if (column_of(pack) < dim)
      Normalize(run, sums[pack], mean, rstd, row, column_of(pack));
  }
  if (threadIdx.x % kWarpThreads == 0) StoreStatistics(run, row, mean, rstd);
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
  const float2 statistics = Statistics(run, warps, [&](auto use) {
    for (int i = 0; has_part && i < kWidth; ++i) use(sum.elems[i]);
  });
  if (has_part) Normalize(run, sum, statistics.x, statistics.y, row, column);
  if (threadIdx.x == 0) StoreStatistics(run, row, statistics.x, statistics.y);
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
  const float2 statistics = Statistics(run, warps, [&](auto use) {
    for (int64_t i = threadIdx.x; i < dim; i += blockDim.x)
      use(ToFloat(sum[i]));
  });
  for (int64_t i = threadIdx.x; i < dim; i += blockDim.x) {
    Normalize(run, LoadFloats<1>(sum + i), statistics.x, statistics.y, row, i);
  }
  if (threadIdx.x == 0) StoreStatistics(run, row, statistics.x, statistics.y);
}

template <typename T>
struct Backward {
  RowShape shape;
  int64_t block_rows;
  const T* dy;
  const T* sum;
  const T* gamma;
  const float* mean;  // null if rows are not centred
  const float* rstd;
  float* block_sums;  // [blocks, kSums, dim], in the order of Sum
  T* dsum;
};

template <typename T>
__device__ float MeanOf(const Backward<T>& run, int64_t row) {
  return run.mean == nullptr ? 0.0f : run.mean[row];
}

// The two means over a row that its gradient needs: of the gradient before
// gamma and beta, which is taken for 0 if rows are not centred, and of its
// product with the normalized row. Two places of
// `warps` take turns, so that a row costs one __syncthreads().
template <typename T>
__device__ float2 RowMeans(const Backward<T>& run, float gradient,
                           float product, int64_t row, float2* warps) {
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
  const float count = static_cast<float>(run.shape.dim);
  return {run.mean == nullptr ? 0.0f : sums.x / count, sums.y / count};
}

// A block for each block of rows; each thread keeps one pack of columns.
template <int kThreads, int kWidth, typename T>
__global__ void __launch_bounds__(kThreads) BackwardKernel(Backward<T> run) {
  __shared__ float2 warps[2 * kMaxWarps];
  const int64_t dim = run.shape.dim;
  const int64_t column = static_cast<int64_t>(threadIdx.x) * kWidth;
  const bool has_part = column < dim;
  const int64_t begin = blockIdx.x * run.block_rows;
  const int64_t end = std::min(begin + run.block_rows, run.shape.rows);
  Pack<kWidth, float> gamma = {};
  Pack<kWidth, float> dgamma = {};
  Pack<kWidth, float> dbeta = {};
  Pack<kWidth, float> dsums = {};
  if (has_part) gamma = LoadFloats<kWidth>(run.gamma + column);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t at = row * dim + column;
    const float rstd = run.rstd[row];
    Pack<kWidth, T> dy = {};
    Pack<kWidth, T> dsum = {};
    Pack<kWidth, float> normalized = {};
    float gradient = 0;
    float product = 0;
    if (has_part) {
      const float mean = MeanOf(run, row);
      dy = LoadPack<kWidth>(run.dy + at);
      normalized = LoadFloats<kWidth>(run.sum + at);
      dsum = LoadPack<kWidth>(static_cast<const T*>(run.dsum) + at);
      for (int i = 0; i < kWidth; ++i) {
        const float dy_i = ToFloat(dy.elems[i]);
        normalized.elems[i] = (normalized.elems[i] - mean) * rstd;
        gradient += dy_i * gamma.elems[i];
        product += dy_i * gamma.elems[i] * normalized.elems[i];
        dgamma.elems[i] += dy_i * normalized.elems[i];
        dbeta.elems[i] += dy_i;
      }
    }
    const float2 means = RowMeans(run, gradient, product, row, warps);
    if (!has_part) continue;
    for (int i = 0; i < kWidth; ++i) {
      dsum.elems[i] =
          RoundTo<T>(ToFloat(dsum.elems[i]) +
                     rstd * (ToFloat(dy.elems[i]) * gamma.elems[i] - means.x -
                             normalized.elems[i] * means.y));
      dsums.elems[i] += ToFloat(dsum.elems[i]);
    }
    StorePack(dsum, run.dsum + at);
  }
  if (!has_part) return;
  float* const sums = run.block_sums + blockIdx.x * kSums * dim + column;
  for (int i = 0; i < kWidth; ++i) {
    sums[kGammaSum * dim + i] = dgamma.elems[i];
    sums[kBetaSum * dim + i] = dbeta.elems[i];
    sums[kDsumSum * dim + i] = dsums.elems[i];
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
  float* const dgamma = run.block_sums + (blockIdx.x * kSums + kGammaSum) * dim;
  float* const dbeta = run.block_sums + (blockIdx.x * kSums + kBetaSum) * dim;
  float* const dsums = run.block_sums + (blockIdx.x * kSums + kDsumSum) * dim;
  for (int64_t row = begin; row < end; ++row) {
    const T* const dy = run.dy + row * dim;
    const T* const sum = run.sum + row * dim;
    T* const dsum = run.dsum + row * dim;
    const float mean = MeanOf(run, row);
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
    const float2 means = RowMeans(run, gradient, product, row, warps);
    for (int64_t i = threadIdx.x; i < dim; i += blockDim.x) {
      const float before = ToFloat(dy[i]) * ToFloat(run.gamma[i]);
      const float normalized = (ToFloat(sum[i]) - mean) * rstd;
      dsum[i] = RoundTo<T>(ToFloat(dsum[i]) +
                           rstd * (before - means.x - normalized * means.y));
      dsums[i] = (row == begin ? 0.0f : dsums[i]) + ToFloat(dsum[i]);
    }
  }
}

// The packs of a row that a thread of its warp has.
template <typename T>
int64_t PacksOf(int64_t dim) {
  return std::max<int64_t>(1, CeilDivide(dim, kPackElems<T> * kWarpThreads));
}

// For rows of up to kMaxPacks packs a thread.
template <typename T>
cudaError_t LaunchForwardRows(cudaStream_t stream, const Forward<T>& run) {
  constexpr int kWidth = kPackElems<T>;
  constexpr void (*kKernels[])(Forward<T>) = {
      ForwardRowKernel<1, kWidth, T>, ForwardRowKernel<2, kWidth, T>,
      ForwardRowKernel<3, kWidth, T>, ForwardRowKernel<4, kWidth, T>};
  static_assert(std::size(kKernels) == kMaxPacks);
  return LaunchKernel(
      kKernels[PacksOf<T>(run.shape.dim) - 1],
      dim3(static_cast<unsigned>(CeilDivide(run.shape.rows, kRowWarps))),
      dim3(kRowWarps * kWarpThreads), 0, stream, run);
}

// Returns true if rows that pass FitsBlock suit the kernels that keep a row in
// a warp.
template <typename T>
bool FitsWarp(int64_t dim) {
  return PacksOf<T>(dim) <= kMaxPacks;
}

// Returns true if rows suit the kernels that keep a pack of each row in each
// thread.
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
  constexpr int kWidth = kPackElems<T>;
  if (!FitsBlock<T>(shape.dim, x, delta, sum, gamma, beta, y)) {
    stream.Check(
        LaunchKernel(ForwardAnyKernel<T>, dim3(blocks),
                     dim3(BlockThreads(shape.dim)), 0, stream.get(), run),
        "layer_norm_forward");
  } else if (FitsWarp<T>(shape.dim)) {
    stream.Check(LaunchForwardRows(stream.get(), run), "layer_norm_forward");
  } else {
    stream.Check(LaunchKernel(ForwardKernel<kWidth, T>, dim3(blocks),
                              dim3(BlockThreads(shape.dim / kWidth)), 0,
                              stream.get(), run),
                 "layer_norm_forward");
  }
}

int64_t LayerNormScratchElems(CudaStream& /*stream*/, RowShape shape) {
  const int64_t blocks =
      std::min(kMaxBlocks, CeilDivide(shape.rows, kMinBlockRows));
  return blocks * kSums * shape.dim;
}

template <typename T>
void LayerNormBackward(CudaStream& stream, RowShape shape, Write write,
                       const T* dy, const T* sum, const T* gamma,
                       const float* mean, const float* rstd, float* scratch,
                       T* dsum, float* dgamma, float* dbeta,
                       float* dsum_total) {
  const int64_t dim = shape.dim;
  const int64_t block_rows = BlockRows(shape.rows);
  const int64_t blocks = CeilDivide(shape.rows, block_rows);
  if (blocks > 0) {
    const Backward<T> run = {shape, block_rows, dy,      sum, gamma,
                             mean,  rstd,       scratch, dsum};
    const dim3 grid(static_cast<unsigned>(blocks));
    if (FitsBlock<T>(dim, dy, sum, gamma, dsum)) {
      constexpr int kWidth = kPackElems<T>;
      const unsigned threads = BlockThreads(dim / kWidth);
      stream.Check(LaunchKernel(threads <= kFewThreads
                                    ? BackwardKernel<kFewThreads, kWidth, T>
                                    : BackwardKernel<kMaxThreads, kWidth, T>,
                                grid, dim3(threads), 0, stream.get(), run),
                   "layer_norm_backward");
    } else {
      stream.Check(LaunchKernel(BackwardAnyKernel<T>, grid,
                                dim3(BlockThreads(dim)), 0, stream.get(), run),
                   "layer_norm_backward");
    }
  }
  const ColumnSums sums = {blocks, dim, kSums * dim};
  float* const totals[kSums] = {dgamma, dbeta, dsum_total};
  for (int sum = 0; sum < kSums; ++sum) {
    if (totals[sum] == nullptr) continue;
    stream.Check(LaunchSumColumns(stream.get(), sums, write,
                                  scratch + sum * dim, totals[sum]),
                 "layer_norm_backward of all rows");
  }
}

#define RM_INSTANTIATE(T)                                                  \
  template void ResidualLayerNormForward<T>(                               \
      CudaStream&, RowShape, const T*, const T*, const DeviceDropout&, T*, \
      const T*, const T*, double, T*, float*, float*);                     \
  template void LayerNormBackward<T>(                                      \
      CudaStream&, RowShape, Write, const T*, const T*, const T*,          \
      const float*, const float*, float*, T*, float*, float*, float*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
