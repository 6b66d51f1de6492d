#include <algorithm>

#include "worker/nn/cuda/kernel_parts.cuh"
#include "worker/train/cuda/sum_of_squares.h"

namespace ringmaster::cuda {
namespace {

// Elements that a thread reads at once, whether or not in one load.
constexpr int kWidth = 4;
// Each block has its own sum. There are at most kMaxBlocks, of at least
// kMinBlockElems.
constexpr int64_t kMaxBlocks = 1024;
constexpr int64_t kMinBlockElems = int64_t{1} << 14;

// A multiple of what a block reads at once.
int64_t BlockElems(int64_t count) {
  constexpr int64_t kRound = kThreadsPerBlock * kWidth;
  return CeilDivide(std::max(kMinBlockElems, CeilDivide(count, kMaxBlocks)),
                    kRound) *
         kRound;
}

// sums[blockIdx.x] = the block's.
__global__ void BlockSumsKernel(int64_t count, int64_t block_elems,
                                bool is_packed, const float* elems,
                                double* sums) {
  __shared__ double warps[kMaxWarps];
  const int64_t begin = blockIdx.x * block_elems;
  const int64_t end = std::min(begin + block_elems, count);
  // One for each place of a pack, so that additions need not wait for each other.
  double squares[kWidth] = {};
  for (int64_t i = begin + threadIdx.x * kWidth; i < end;
       i += kThreadsPerBlock * kWidth) {
    Pack<kWidth, float> pack = {};
    if (is_packed && i + kWidth <= end) {
      pack = LoadPack<kWidth>(elems + i);
    } else {
      for (int k = 0; k < kWidth && i + k < end; ++k)
        pack.elems[k] = elems[i + k];
    }
    // Exact products: fused or not, a sum is rounded once.
    for (int k = 0; k < kWidth; ++k) {
      const double x = pack.elems[k];
      squares[k] += x * x;
    }
  }
  const double sum =
      BlockSum((squares[0] + squares[1]) + (squares[2] + squares[3]), warps);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// One block.
__global__ void TotalKernel(int64_t count, const double* sums, double* total) {
  __shared__ double warps[kMaxWarps];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreadsPerBlock)
    sum += sums[i];
  sum = BlockSum(sum, warps);
  if (threadIdx.x == 0) *total = sum;
}

}  // namespace

int64_t SumOfSquaresScratchElems(int64_t count) {
  return std::min(kMaxBlocks, CeilDivide(count, kMinBlockElems));
}

void SumOfSquares(CudaStream& stream, int64_t count, const float* elems,
                  double* scratch, double* sum) {
  const int64_t block_elems = BlockElems(count);
  const int64_t blocks = CeilDivide(count, block_elems);
  if (blocks > 0) {  // a grid of 0 blocks is an error
    stream.Check(
        LaunchKernel(BlockSumsKernel, dim3(static_cast<unsigned>(blocks)),
                     dim3(kThreadsPerBlock), 0, stream.get(), count,
                     block_elems, ArePacked(elems), elems, scratch),
        "sum_of_squares of blocks");
  }
  stream.Check(LaunchKernel(TotalKernel, dim3(1), dim3(kThreadsPerBlock), 0,
                            stream.get(), blocks, scratch, sum),
               "sum_of_squares");
}

}  // namespace ringmaster::cuda
