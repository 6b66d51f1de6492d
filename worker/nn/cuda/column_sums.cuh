// Sums of a matrix' columns in a fixed order: first of blocks of rows, each by
// itself, then of the blocks' sums.
//
// For .cu files alone.
#ifndef RINGMASTER_WORKER_NN_CUDA_COLUMN_SUMS_CUH_
#define RINGMASTER_WORKER_NN_CUDA_COLUMN_SUMS_CUH_

#include <cstdint>

#include "worker/nn/compute.h"
#include "worker/nn/cuda/kernel_parts.cuh"

namespace ringmaster::cuda {

// The rows that a block treats at a time, with a warp for each.
constexpr int kSumWarps = 16;
constexpr int kSumThreads = kSumWarps * kWarpThreads;

// A matrix in row-major order; its rows begin `stride` elements apart.
struct ColumnSums {
  int64_t rows;
  int64_t columns;
  int64_t stride;
};

// total [gridDim.y, columns] = or +=: row y of it is the sum of rows
// [y * block_rows, (y + 1) * block_rows) of x. Each of a block's threads, of
// which there are kSumThreads, sums kWidth columns over every kSumWarps-th row.
template <int kWidth, typename T>
__global__ void SumColumnsKernel(ColumnSums shape, int64_t block_rows,
                                 Write write, const T* x, float* total) {
  __shared__ float sums[kSumThreads * kWidth];
  const unsigned warp = threadIdx.x / kWarpThreads;
  const unsigned lane = threadIdx.x % kWarpThreads;
  const int64_t column =
      (static_cast<int64_t>(blockIdx.x) * kWarpThreads + lane) * kWidth;
  const int64_t begin = blockIdx.y * block_rows;
  const int64_t end = std::min(begin + block_rows, shape.rows);
  Pack<kWidth, float> sum = {};
  if (column < shape.columns) {
    for (int64_t row = begin + warp; row < end; row += kSumWarps) {
      const auto loaded = LoadFloats<kWidth>(x + row * shape.stride + column);
      for (int i = 0; i < kWidth; ++i) sum.elems[i] += loaded.elems[i];
    }
  }
  for (int i = 0; i < kWidth; ++i)
    sums[(warp * kWidth + i) * kWarpThreads + lane] = sum.elems[i];
  __syncthreads();
  // The first warps add up what all of them have found: warp i the columns at
  // place i of each thread's.
  if (warp >= kWidth || column + warp >= shape.columns) return;
  float all = 0;
  for (int from = 0; from < kSumWarps; ++from)
    all += sums[(from * kWidth + warp) * kWarpThreads + lane];
  float* const to = total + blockIdx.y * shape.columns + column + warp;
  *to = write == Write::kAdd ? *to + all : all;
}

// total [columns] = or +=, in one go; for a matrix of a few rows.
inline cudaError_t LaunchSumColumns(cudaStream_t stream, ColumnSums shape,
                                    Write write, const float* x, float* total) {
  const auto blocks =
      static_cast<unsigned>(CeilDivide(shape.columns, kWarpThreads));
  return LaunchKernel(SumColumnsKernel<1, float>, dim3(blocks), kSumThreads, 0,
                      stream, shape, shape.rows, write, x, total);
}

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_COLUMN_SUMS_CUH_
