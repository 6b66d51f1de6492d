#include <algorithm>

#include "worker/nn/cuda/bias.h"
#include "worker/nn/cuda/column_sums.cuh"

namespace ringmaster::cuda {
namespace {

// Blocks of rows, each with its own sums: as many as fill any GPU, if there are
// a few hundred columns.
constexpr int64_t kMaxBlocks = 128;
constexpr int64_t kMinBlockRows = 64;

int64_t BlockRows(int64_t rows) {
  return std::max(kMinBlockRows, CeilDivide(rows, kMaxBlocks));
}

template <int kWidth, typename T>
cudaError_t LaunchBlocks(cudaStream_t stream, ColumnSums shape, Write write,
                         const T* dy, float* sums) {
  const int64_t block_rows = BlockRows(shape.rows);
  const dim3 grid(
      static_cast<unsigned>(CeilDivide(shape.columns, kWarpThreads * kWidth)),
      // One block of no rows writes what their sum is.
      static_cast<unsigned>(
          std::max<int64_t>(1, CeilDivide(shape.rows, block_rows))));
  return LaunchKernel(SumColumnsKernel<kWidth, T>, grid, dim3(kSumThreads), 0,
                      stream, shape, block_rows, write, dy, sums);
}

}  // namespace

int64_t BiasBackwardScratchElems(int64_t rows, int64_t columns) {
  return std::min(kMaxBlocks, CeilDivide(rows, kMinBlockRows)) * columns;
}

template <typename T>
void BiasBackward(CudaStream& stream, int64_t rows, int64_t columns,
                  int64_t stride, Write write, const T* dy, float* scratch,
                  float* dbias) {
  if (columns == 0) return;  // a grid of 0 blocks is an error
  const int64_t blocks = CeilDivide(rows, BlockRows(rows));
  const bool is_one = blocks <= 1;
  const ColumnSums shape = {rows, columns, stride};
  float* const sums = is_one ? dbias : scratch;
  const Write sums_write = is_one ? write : Write::kSet;
  constexpr int kWidth = kPackElems<T>;
  const bool is_packed =
      ArePacked(dy) && columns % kWidth == 0 && stride % kWidth == 0;
  stream.Check(
      is_packed
          ? LaunchBlocks<kWidth>(stream.get(), shape, sums_write, dy, sums)
          : LaunchBlocks<1>(stream.get(), shape, sums_write, dy, sums),
      "bias_backward of blocks");
  if (is_one) return;
  stream.Check(LaunchSumColumns(stream.get(), {blocks, columns, columns}, write,
                                scratch, dbias),
               "bias_backward");
}

#define RM_INSTANTIATE(T)                                                      \
  template void BiasBackward<T>(CudaStream&, int64_t, int64_t, int64_t, Write, \
                                const T*, float*, float*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
