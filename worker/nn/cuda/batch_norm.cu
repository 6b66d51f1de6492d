#include <algorithm>

#include "worker/nn/cuda/batch_norm.h"
#include "worker/nn/cuda/kernel_parts.cuh"

namespace ringmaster::cuda {
namespace {

// Blocks of a group's rows, each with its own sums: as many as fill any GPU, if
// there are a few hundred channels.
constexpr int64_t kMaxBlocks = 128;
constexpr int64_t kMinBlockRows = 64;
// The rows that a block treats at a time, with a warp for each.
constexpr int kSumWarps = 16;
constexpr int kSumThreads = kSumWarps * kWarpThreads;

int64_t BlockRows(int64_t rows) {
  return std::max(kMinBlockRows, CeilDivide(rows, kMaxBlocks));
}

// The rows of one group.
struct Rows {
  int64_t rows;
  int64_t channels;
  int64_t block_rows;
};

// A running variance may be below 0, for which 0 stands (see
// worker/nn/batch_norm.cc); a NaN stays one.
__device__ inline float InverseDeviation(float variance, float epsilon) {
  return 1.0f / sqrtf((variance < 0 ? 0.0f : variance) + epsilon);
}

// Adds up a block's pairs of sums, kWidth columns of each thread, and calls
// done(column, first, second) for each column.
template <int kWidth, typename Done>
__device__ void AddUp(const Pack<kWidth, float>& first,
                      const Pack<kWidth, float>& second, int64_t channels,
                      Done done) {
  __shared__ float sums[2][kSumThreads * kWidth];
  const unsigned warp = threadIdx.x / kWarpThreads;
  const unsigned lane = threadIdx.x % kWarpThreads;
  for (int i = 0; i < kWidth; ++i) {
    const unsigned at = (warp * kWidth + i) * kWarpThreads + lane;
    sums[0][at] = first.elems[i];
    sums[1][at] = second.elems[i];
  }
  __syncthreads();
  const int64_t column =
      (static_cast<int64_t>(blockIdx.x) * kWarpThreads + lane) * kWidth + warp;
  if (warp >= kWidth || column >= channels) return;
  float all_first = 0;
  float all_second = 0;
  for (int from = 0; from < kSumWarps; ++from) {
    const unsigned at = (from * kWidth + warp) * kWarpThreads + lane;
    all_first += sums[0][at];
    all_second += sums[1][at];
  }
  done(column, all_first, all_second);
}

// blocks [gridDim.y,2,channels] = mean and sum of squared distances from it, of
// each block of rows.
template <int kWidth, typename T>
__global__ void BatchNormStatisticsKernel(Rows at, const T* x, float* blocks) {
  const unsigned warp = threadIdx.x / kWarpThreads;
  const unsigned lane = threadIdx.x % kWarpThreads;
  const int64_t column =
      (static_cast<int64_t>(blockIdx.x) * kWarpThreads + lane) * kWidth;
  const int64_t begin = blockIdx.y * at.block_rows;
  const int64_t end = std::min(begin + at.block_rows, at.rows);
  // The first row is subtracted first, so that little is lost where a mean is
  // large.
  const T* const start = x + begin * at.channels;
  Pack<kWidth, float> sum = {};
  Pack<kWidth, float> square = {};
  if (column < at.channels) {
    const auto shift = LoadFloats<kWidth>(start + column);
    for (int64_t row = begin + warp; row < end; row += kSumWarps) {
      const auto loaded = LoadFloats<kWidth>(x + row * at.channels + column);
      for (int i = 0; i < kWidth; ++i) {
        const float distance = loaded.elems[i] - shift.elems[i];
        sum.elems[i] += distance;
        square.elems[i] += distance * distance;
      }
    }
  }
  float* const to = blocks + blockIdx.y * 2 * at.channels;
  const auto count = static_cast<float>(end - begin);
  AddUp<kWidth>(sum, square, at.channels,
                [&](int64_t channel, float all, float squares) {
                  to[channel] = ToFloat(start[channel]) + all / count;
                  to[at.channels + channel] = squares - all * all / count;
                });
}

// Combines the blocks in their order (Chan, Golub and LeVeque, 1979).
__global__ void BatchNormCombineKernel(Rows at, const float* blocks,
                                       float* mean, float* variance) {
  const int64_t channel =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (channel >= at.channels) return;
  double center = 0;
  double squares = 0;
  double count = 0;
  for (int64_t first = 0; first < at.rows; first += at.block_rows) {
    const float* const block =
        blocks + first / at.block_rows * 2 * at.channels + channel;
    const auto more =
        static_cast<double>(std::min(at.block_rows, at.rows - first));
    const double distance = block[0] - center;
    const double all = count + more;
    squares += block[at.channels] + distance * distance * count * more / all;
    center += distance * more / all;
    count = all;
  }
  mean[channel] = static_cast<float>(center);
  // Such that a NaN stays one.
  variance[channel] = static_cast<float>(squares <= 0 ? 0.0 : squares / count);
}

template <typename T>
struct NormalizeArrays {
  const T* x;
  const T* gamma;
  const T* beta;
  const T* branch;  // or null
  const float* mean;
  const float* variance;
  T* y;
};

template <int kWidth, typename T>
__global__ void BatchNormNormalizeKernel(int64_t count, int64_t channels,
                                         float epsilon, bool rectifies,
                                         NormalizeArrays<T> at) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x * kWidth;
  for (int64_t i =
           (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) *
           kWidth;
       i < count; i += step) {
    const int64_t channel = i % channels;
    auto value = LoadFloats<kWidth>(at.x + i);
    const auto gamma = LoadFloats<kWidth>(at.gamma + channel);
    const auto beta = LoadFloats<kWidth>(at.beta + channel);
    Pack<kWidth, float> branch = {};
    if (at.branch != nullptr) branch = LoadFloats<kWidth>(at.branch + i);
    for (int k = 0; k < kWidth; ++k) {
      const float factor =
          gamma.elems[k] * InverseDeviation(at.variance[channel + k], epsilon);
      float y = (value.elems[k] - at.mean[channel + k]) * factor +
                beta.elems[k] + branch.elems[k];
      if (rectifies && y <= 0) y = 0;
      value.elems[k] = y;
    }
    StoreFloats(value, at.y + i);
  }
}

template <typename T>
struct BackwardArrays {
  const T* dy;
  const T* y;  // or null
  const T* x;
  const float* mean;
  T* dbranch;  // or null
  T* dx;
};

// The gradient before the rectifier.
template <int kWidth, typename T>
__device__ Pack<kWidth, float> GradientAt(const BackwardArrays<T>& at,
                                          int64_t i) {
  auto gradient = LoadFloats<kWidth>(at.dy + i);
  if (at.y == nullptr) return gradient;
  const auto y = LoadFloats<kWidth>(at.y + i);
  for (int k = 0; k < kWidth; ++k)
    if (y.elems[k] <= 0) gradient.elems[k] = 0;
  return gradient;
}

// sums [gridDim.y,2,channels] = of each block of rows, the gradient and its
// product with the distance from the mean.
template <int kWidth, typename T>
__global__ void BatchNormGradientsKernel(Rows rows, BackwardArrays<T> at,
                                         float* sums) {
  const unsigned warp = threadIdx.x / kWarpThreads;
  const unsigned lane = threadIdx.x % kWarpThreads;
  const int64_t column =
      (static_cast<int64_t>(blockIdx.x) * kWarpThreads + lane) * kWidth;
  const int64_t begin = blockIdx.y * rows.block_rows;
  const int64_t end = std::min(begin + rows.block_rows, rows.rows);
  Pack<kWidth, float> sum = {};
  Pack<kWidth, float> product = {};
  if (column < rows.channels) {
    for (int64_t row = begin + warp; row < end; row += kSumWarps) {
      const int64_t i = row * rows.channels + column;
      const auto gradient = GradientAt<kWidth>(at, i);
      const auto x = LoadFloats<kWidth>(at.x + i);
      if (at.dbranch != nullptr) StoreFloats(gradient, at.dbranch + i);
      for (int k = 0; k < kWidth; ++k) {
        sum.elems[k] += gradient.elems[k];
        product.elems[k] +=
            gradient.elems[k] * (x.elems[k] - at.mean[column + k]);
      }
    }
  }
  float* const to = sums + blockIdx.y * 2 * rows.channels;
  AddUp<kWidth>(sum, product, rows.channels,
                [&](int64_t channel, float first, float second) {
                  to[channel] = first;
                  to[rows.channels + channel] = second;
                });
}

// dgamma and dbeta = or +=, and coefficients [3,channels] = for
// BatchNormInputKernel.
template <typename T>
__global__ void BatchNormParametersKernel(Rows rows, int64_t blocks,
                                          float epsilon, Write write,
                                          const float* sums, const T* gamma,
                                          const float* variance,
                                          float* coefficients, float* dgamma,
                                          float* dbeta) {
  const int64_t channel =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (channel >= rows.channels) return;
  float sum = 0;
  float product = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    const float* const from = sums + block * 2 * rows.channels + channel;
    sum += from[0];
    product += from[rows.channels];
  }
  const float scale = InverseDeviation(variance[channel], epsilon);
  const float factor = ToFloat(gamma[channel]) * scale;
  const float by_gamma = product * scale;
  const auto count = static_cast<float>(rows.rows);
  const bool is_added = write == Write::kAdd;
  dgamma[channel] = is_added ? dgamma[channel] + by_gamma : by_gamma;
  dbeta[channel] = is_added ? dbeta[channel] + sum : sum;
  coefficients[channel] = factor;
  coefficients[rows.channels + channel] = factor * (sum / count);
  coefficients[2 * rows.channels + channel] =
      factor * scale * (by_gamma / count);
}

template <int kWidth, typename T>
__global__ void BatchNormInputKernel(int64_t count, int64_t channels,
                                     BackwardArrays<T> at,
                                     const float* coefficients) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x * kWidth;
  for (int64_t i =
           (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) *
           kWidth;
       i < count; i += step) {
    const float* const own = coefficients + i % channels;
    const float* const mean = at.mean + i % channels;
    auto gradient = GradientAt<kWidth>(at, i);
    const auto x = LoadFloats<kWidth>(at.x + i);
    for (int k = 0; k < kWidth; ++k) {
      gradient.elems[k] = own[k] * gradient.elems[k] - own[channels + k] -
                          own[2 * channels + k] * (x.elems[k] - mean[k]);
    }
    StoreFloats(gradient, at.dx + i);
  }
}

struct TrackArrays {
  const float* mean;
  const float* variance;
  const float* running_mean;
  const float* running_variance;
  float* dmean;
  float* dvariance;
};

__global__ void BatchNormTrackKernel(BatchNormShape shape,
                                     const DeviceLossTerms* terms, Write write,
                                     TrackArrays at) {
  const int64_t channel =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (channel >= shape.channels) return;
  const bool is_added = write == Write::kAdd;
  float dmean = is_added ? at.dmean[channel] : 0;
  float dvariance = is_added ? at.dvariance[channel] : 0;
  const int64_t group_samples = shape.group == 0 ? shape.batch : shape.group;
  for (int64_t first = 0; first < shape.batch; first += group_samples) {
    const int64_t samples = std::min(group_samples, shape.batch - first);
    const auto rows = static_cast<float>(samples * shape.pixels);
    const float weight = terms->scale * static_cast<float>(samples);
    const float unbiased = rows > 1 ? rows / (rows - 1) : 1;
    const int64_t i = first / group_samples * shape.channels + channel;
    dmean += weight * (at.running_mean[channel] - at.mean[i]);
    dvariance +=
        weight * (at.running_variance[channel] - unbiased * at.variance[i]);
  }
  at.dmean[channel] = dmean;
  at.dvariance[channel] = dvariance;
}

// Calls run(width) with the elements that a thread loads at once, as a type.
template <int kWidth>
struct WidthOf {
  static constexpr int value = kWidth;
};
template <typename T, typename Run, typename... Pointers>
cudaError_t WithWidth(int64_t channels, Run run, const Pointers*... pointers) {
  constexpr int kWidth = kPackElems<T>;
  return channels % kWidth == 0 && ArePacked(pointers...)
             ? run(WidthOf<kWidth>())
             : run(WidthOf<1>());
}

template <typename Width>
dim3 SumGrid(const Rows& rows) {
  return dim3(static_cast<unsigned>(
                  CeilDivide(rows.channels, kWarpThreads * Width::value)),
              static_cast<unsigned>(CeilDivide(rows.rows, rows.block_rows)));
}

dim3 ChannelGrid(int64_t channels) {
  return dim3(static_cast<unsigned>(CeilDivide(channels, kThreadsPerBlock)));
}

Rows RowsOf(const BatchNormShape& shape, int64_t group) {
  const int64_t rows = shape.rows_of(group);
  return {rows, shape.channels, BlockRows(rows)};
}

template <typename T>
void Normalize(CudaStream& stream, int64_t rows, const BatchNormShape& shape,
               bool rectifies, const NormalizeArrays<T>& at) {
  const int64_t count = rows * shape.channels;
  if (count == 0) return;
  const auto epsilon = static_cast<float>(shape.epsilon);
  stream.Check(
      WithWidth<T>(
          shape.channels,
          [&](auto width) {
            constexpr int kWidth = decltype(width)::value;
            return LaunchKernel(
                BatchNormNormalizeKernel<kWidth, T>,
                GridBlocks(CeilDivide(count, kWidth * kThreadsPerBlock)),
                kThreadsPerBlock, 0, stream.get(), count, shape.channels,
                epsilon, rectifies, at);
          },
          at.x, at.gamma, at.beta, at.branch, at.y),
      "batch_norm");
}

template <typename T>
void SumStatistics(CudaStream& stream, const Rows& rows, const T* x,
                   float* blocks) {
  stream.Check(WithWidth<T>(
                   rows.channels,
                   [&](auto width) {
                     using Width = decltype(width);
                     return LaunchKernel(
                         BatchNormStatisticsKernel<Width::value, T>,
                         SumGrid<Width>(rows), dim3(kSumThreads), 0,
                         stream.get(), rows, x, blocks);
                   },
                   x),
               "batch_norm statistics of blocks");
}

template <typename T>
void SumGradients(CudaStream& stream, const Rows& rows,
                  const BackwardArrays<T>& at, float* sums) {
  stream.Check(WithWidth<T>(
                   rows.channels,
                   [&](auto width) {
                     using Width = decltype(width);
                     return LaunchKernel(
                         BatchNormGradientsKernel<Width::value, T>,
                         SumGrid<Width>(rows), dim3(kSumThreads), 0,
                         stream.get(), rows, at, sums);
                   },
                   at.dy, at.y, at.x, at.dbranch),
               "batch_norm_backward of blocks");
}

template <typename T>
void ComputeInput(CudaStream& stream, const Rows& rows,
                  const BackwardArrays<T>& at, const float* coefficients) {
  const int64_t count = rows.rows * rows.channels;
  stream.Check(
      WithWidth<T>(
          rows.channels,
          [&](auto width) {
            constexpr int kWidth = decltype(width)::value;
            return LaunchKernel(
                BatchNormInputKernel<kWidth, T>,
                GridBlocks(CeilDivide(count, kWidth * kThreadsPerBlock)),
                kThreadsPerBlock, 0, stream.get(), count, rows.channels, at,
                coefficients);
          },
          at.dy, at.y, at.x, at.dx),
      "batch_norm_backward");
}

}  // namespace

int64_t BatchNormScratchElems(const CudaStream& /*stream*/,
                              const BatchNormShape& shape) {
  return (2 * kMaxBlocks + 3) * shape.channels;
}

template <typename T>
void BatchNormForward(CudaStream& stream, const BatchNormShape& shape,
                      const T* x, const T* gamma, const T* beta,
                      const BatchNormNext<T>& next, float* scratch, T* y,
                      float* mean, float* variance) {
  for (int64_t group = 0; group < shape.groups(); ++group) {
    const Rows rows = RowsOf(shape, group);
    const int64_t at = shape.first_row_of(group) * shape.channels;
    float* const own_mean = mean + group * shape.channels;
    float* const own_variance = variance + group * shape.channels;
    SumStatistics<T>(stream, rows, x + at, scratch);
    stream.Check(
        LaunchKernel(BatchNormCombineKernel, ChannelGrid(shape.channels),
                     dim3(kThreadsPerBlock), 0, stream.get(), rows, scratch,
                     own_mean, own_variance),
        "batch_norm statistics");
    Normalize<T>(stream, rows.rows, shape, next.rectifies,
                 {x + at, gamma, beta,
                  next.branch == nullptr ? nullptr : next.branch + at, own_mean,
                  own_variance, y + at});
  }
}

template <typename T>
void BatchNormPredict(CudaStream& stream, const BatchNormShape& shape,
                      const T* x, const T* gamma, const T* beta,
                      const float* running_mean, const float* running_variance,
                      const BatchNormNext<T>& next, float* /*scratch*/, T* y) {
  Normalize<T>(
      stream, shape.batch * shape.pixels, shape, next.rectifies,
      {x, gamma, beta, next.branch, running_mean, running_variance, y});
}

template <typename T>
void BatchNormTrack(CudaStream& stream, const BatchNormShape& shape,
                    const DeviceLossTerms* terms, Write write,
                    const float* mean, const float* variance,
                    const float* running_mean, const float* running_variance,
                    float* dmean, float* dvariance) {
  const TrackArrays at = {mean,  variance, running_mean, running_variance,
                          dmean, dvariance};
  stream.Check(LaunchKernel(BatchNormTrackKernel, ChannelGrid(shape.channels),
                            dim3(kThreadsPerBlock), 0, stream.get(), shape,
                            terms, write, at),
               "batch_norm running statistics");
}

template <typename T>
void BatchNormBackward(CudaStream& stream, const BatchNormShape& shape,
                       Write write, const T* dy, const T* y, const T* x,
                       const T* gamma, const float* mean, const float* variance,
                       float* scratch, T* dx, float* dgamma, float* dbeta,
                       T* dbranch) {
  const int64_t channels = shape.channels;
  if (shape.batch == 0 && write == Write::kSet) {
    const auto bytes = channels * static_cast<int64_t>(sizeof(float));
    stream.FillZero(dgamma, bytes);
    stream.FillZero(dbeta, bytes);
  }
  const auto epsilon = static_cast<float>(shape.epsilon);
  float* const coefficients = scratch + 2 * kMaxBlocks * channels;
  for (int64_t group = 0; group < shape.groups(); ++group) {
    const Rows rows = RowsOf(shape, group);
    const int64_t first = shape.first_row_of(group) * channels;
    BackwardArrays<T> at = {dy + first,
                            y == nullptr ? nullptr : y + first,
                            x + first,
                            mean + group * channels,
                            dbranch == nullptr ? nullptr : dbranch + first,
                            dx + first};
    SumGradients<T>(stream, rows, at, scratch);
    stream.Check(
        LaunchKernel(BatchNormParametersKernel<T>, ChannelGrid(channels),
                     dim3(kThreadsPerBlock), 0, stream.get(), rows,
                     CeilDivide(rows.rows, rows.block_rows), epsilon,
                     group == 0 ? write : Write::kAdd, scratch, gamma,
                     variance + group * channels, coefficients, dgamma, dbeta),
        "batch_norm_backward of parameters");
    // The branch's gradient is rectified already.
    if (dbranch != nullptr) {
      at.dy = at.dbranch;
      at.y = nullptr;
    }
    ComputeInput<T>(stream, rows, at, coefficients);
  }
}

template void BatchNormTrack<float>(CudaStream&, const BatchNormShape&,
                                    const DeviceLossTerms*, Write, const float*,
                                    const float*, const float*, const float*,
                                    float*, float*);
#define RM_INSTANTIATE(T)                                                      \
  template void BatchNormForward<T>(                                           \
      CudaStream&, const BatchNormShape&, const T*, const T*, const T*,        \
      const BatchNormNext<T>&, float*, T*, float*, float*);                    \
  template void BatchNormPredict<T>(                                           \
      CudaStream&, const BatchNormShape&, const T*, const T*, const T*,        \
      const float*, const float*, const BatchNormNext<T>&, float*, T*);        \
  template void BatchNormBackward<T>(                                          \
      CudaStream&, const BatchNormShape&, Write, const T*, const T*, const T*, \
      const T*, const float*, const float*, float*, T*, float*, float*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
