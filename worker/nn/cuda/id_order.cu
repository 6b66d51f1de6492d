#include <utility>

#include "worker/nn/cuda/id_order.h"
#include "worker/nn/cuda/kernel_parts.cuh"

namespace ringmaster::cuda {
namespace {

constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
// Places of a tile, one for each thread of a block.
constexpr int kTile = 512;

// One pass: sorts by the digit that begins at bit `shift`.
struct Pass {
  int32_t count;
  int32_t tiles;
  int shift;
  const int32_t* ids;
  const int32_t* from;  // places; null for 0, 1, 2, ...
  int32_t* to;
  int32_t* counts;  // [tiles, kDigits]
  int32_t* totals;  // [kDigits]
};

__device__ int32_t PlaceAt(const Pass& pass, int32_t i) {
  return pass.from == nullptr ? i : pass.from[i];
}

__device__ int DigitOf(const Pass& pass, int32_t place) {
  return (pass.ids[place] >> pass.shift) & (kDigits - 1);
}

// Counts each digit in each tile; a block for each tile.
__global__ void CountKernel(Pass pass) {
  __shared__ int counts[kDigits];
  for (int digit = threadIdx.x; digit < kDigits; digit += kTile)
    counts[digit] = 0;
  __syncthreads();
  const int32_t i = blockIdx.x * kTile + threadIdx.x;
  // Additions of integers: their order makes no difference.
  if (i < pass.count) atomicAdd(&counts[DigitOf(pass, PlaceAt(pass, i))], 1);
  __syncthreads();
  for (int digit = threadIdx.x; digit < kDigits; digit += kTile)
    pass.counts[blockIdx.x * kDigits + digit] = counts[digit];
}

// Replaces each of a digit's counts by the sum of those before it; the sum of
// all of them becomes the digit's total. One block, with a thread for each
// digit: the threads read neighbouring counts, several tiles at once.
__global__ void __launch_bounds__(kDigits) ScanKernel(Pass pass) {
  constexpr int kLoads = 8;
  int32_t before = 0;
  for (int32_t begin = 0; begin < pass.tiles; begin += kLoads) {
    int32_t* const counts = pass.counts + begin * kDigits + threadIdx.x;
    const int tiles = std::min(kLoads, pass.tiles - begin);
    int32_t loaded[kLoads] = {};
#pragma unroll
    for (int tile = 0; tile < kLoads; ++tile)
      if (tile < tiles) loaded[tile] = counts[tile * kDigits];
#pragma unroll
    for (int tile = 0; tile < kLoads; ++tile) {
      if (tile < tiles) counts[tile * kDigits] = before;
      before += loaded[tile];
    }
  }
  pass.totals[threadIdx.x] = before;
}

// Puts each tile's places behind those of smaller digits, and behind those of
// their own digit that come before them.
__global__ void PlaceKernel(Pass pass) {
  __shared__ int digits[kTile];
  __shared__ int32_t totals[kDigits];
  for (int digit = threadIdx.x; digit < kDigits; digit += kTile)
    totals[digit] = pass.totals[digit];
  const int32_t i = blockIdx.x * kTile + threadIdx.x;
  const int32_t place = i < pass.count ? PlaceAt(pass, i) : 0;
  const int digit = i < pass.count ? DigitOf(pass, place) : kDigits;
  digits[threadIdx.x] = digit;
  __syncthreads();
  if (i >= pass.count) return;
  int32_t before = pass.counts[blockIdx.x * kDigits + digit];
  for (int smaller = 0; smaller < digit; ++smaller) before += totals[smaller];
  for (unsigned j = 0; j < threadIdx.x; ++j) before += digits[j] == digit;
  pass.to[before] = place;
}

int64_t Tiles(int64_t count) { return CeilDivide(count, kTile); }

}  // namespace

int64_t IdOrderScratchElems(int64_t count) {
  return 2 * count + kDigits * (Tiles(count) + 1);
}

const int32_t* SortPlacesById(CudaStream& stream, int64_t count,
                              int64_t vocabulary, const int32_t* ids,
                              int32_t* scratch) {
  if (count == 0) return scratch;  // a grid of 0 blocks is an error
  const auto tiles = static_cast<int32_t>(Tiles(count));
  int32_t* const counts = scratch + 2 * count;
  Pass pass = {
      static_cast<int32_t>(count), tiles, 0, ids, nullptr, scratch, counts,
      counts + kDigits * tiles};
  const dim3 grid(static_cast<unsigned>(tiles));
  do {
    stream.Check(
        LaunchKernel(CountKernel, grid, dim3(kTile), 0, stream.get(), pass),
        "id_order: count");
    stream.Check(
        LaunchKernel(ScanKernel, dim3(1), dim3(kDigits), 0, stream.get(), pass),
        "id_order: scan");
    stream.Check(
        LaunchKernel(PlaceKernel, grid, dim3(kTile), 0, stream.get(), pass),
        "id_order: place");
    pass.shift += kDigitBits;
    pass.from =
        std::exchange(pass.to, pass.to == scratch ? scratch + count : scratch);
  } while (((vocabulary - 1) >> pass.shift) != 0);
  return pass.from;
}

}  // namespace ringmaster::cuda
