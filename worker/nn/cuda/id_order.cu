#include <utility>

#include "worker/nn/cuda/id_order.h"
#include "worker/nn/cuda/kernel_parts.cuh"

namespace ringmaster::cuda {
namespace {

constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
// Places of a tile, one for each thread of a block.
constexpr int kTile = 512;
constexpr int kScanThreads = 1024;

// One pass: sorts by the digit that begins at bit `shift`.
struct Pass {
  int32_t count;
  int32_t tiles;
  int shift;
  const int32_t* ids;
  const int32_t* from;  // places; null for 0, 1, 2, ...
  int32_t* to;
  int32_t* counts;  // [kDigits, tiles]
};

__device__ int32_t PlaceAt(const Pass& pass, int32_t i) {
  return pass.from == nullptr ? i : pass.from[i];
}

__device__ int DigitOf(const Pass& pass, int32_t place) {
  return (pass.ids[place] >> pass.shift) & (kDigits - 1);
}

// How often each digit is in each tile; a block for each tile.
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
    pass.counts[digit * pass.tiles + blockIdx.x] = counts[digit];
}

// counts[i] = the sum of those before it; one block, of which each thread has
// some that follow each other.
__global__ void __launch_bounds__(kScanThreads)
    ScanKernel(int32_t elems, int32_t* counts) {
  __shared__ int32_t sums[kScanThreads];
  const int32_t part = (elems + kScanThreads - 1) / kScanThreads;
  const int32_t begin = threadIdx.x * part;
  const int32_t end = begin + part < elems ? begin + part : elems;
  int32_t sum = 0;
  for (int32_t i = begin; i < end; ++i) sum += counts[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  // Hillis and Steele: after each round a sum covers twice as many threads.
  for (unsigned distance = 1; distance < kScanThreads; distance *= 2) {
    const int32_t add =
        threadIdx.x >= distance ? sums[threadIdx.x - distance] : 0;
    __syncthreads();
    sums[threadIdx.x] += add;
    __syncthreads();
  }
  int32_t before = sums[threadIdx.x] - sum;
  for (int32_t i = begin; i < end; ++i)
    before += std::exchange(counts[i], before);
}

// Puts each tile's places behind those of smaller digits, and behind those of
// their own digit that come before them.
__global__ void PlaceKernel(Pass pass) {
  __shared__ int digits[kTile];
  const int32_t i = blockIdx.x * kTile + threadIdx.x;
  const int32_t place = i < pass.count ? PlaceAt(pass, i) : 0;
  const int digit = i < pass.count ? DigitOf(pass, place) : kDigits;
  digits[threadIdx.x] = digit;
  __syncthreads();
  if (i >= pass.count) return;
  int32_t before = 0;
  for (unsigned j = 0; j < threadIdx.x; ++j) before += digits[j] == digit;
  pass.to[pass.counts[digit * pass.tiles + blockIdx.x] + before] = place;
}

int64_t Tiles(int64_t count) { return CeilDivide(count, kTile); }

}  // namespace

int64_t IdOrderScratchElems(int64_t count) {
  return 2 * count + kDigits * Tiles(count);
}

const int32_t* SortPlacesById(CudaStream& stream, int64_t count,
                              int64_t vocabulary, const int32_t* ids,
                              int32_t* scratch) {
  if (count == 0) return scratch;  // a grid of 0 blocks is an error
  const auto tiles = static_cast<int32_t>(Tiles(count));
  Pass pass = {static_cast<int32_t>(count), tiles, 0, ids, nullptr, scratch,
               scratch + 2 * count};
  const dim3 grid(static_cast<unsigned>(tiles));
  do {
    stream.Check(
        LaunchKernel(CountKernel, grid, dim3(kTile), 0, stream.get(), pass),
        "id_order: count");
    stream.Check(LaunchKernel(ScanKernel, dim3(1), dim3(kScanThreads), 0,
                              stream.get(), kDigits * tiles, pass.counts),
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
