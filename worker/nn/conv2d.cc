#include "worker/nn/conv2d.h"

#include <algorithm>

#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"
#include "worker/nn/conv2d_tile.h"

namespace ringmaster {
namespace {

// The most blocks that samples are divided into, whatever the pool; each has
// its own scratch.
constexpr int64_t kMaxBlocks = 16;
// Widest tile of any instruction set; columns are padded to whole tiles.
constexpr int64_t kMaxCols = 32;
// Parts of scratch begin at multiples of this.
constexpr int64_t kAlignElems = 16;
// Elements of x and dy that stay in the first cache while all gradients that
// they take part in are summed.
constexpr int64_t kCachedElems = 6144;
// Rows of a weight matrix that a thread packs or sums at once.
constexpr int64_t kRowGrain = 32;

int64_t RoundUp(int64_t count, int64_t unit) {
  return (count + unit - 1) / unit * unit;
}

int64_t BlockSamples(int64_t batch) {
  return std::max<int64_t>(1, (batch + kMaxBlocks - 1) / kMaxBlocks);
}

int64_t Blocks(int64_t batch) {
  return (batch + BlockSamples(batch) - 1) / BlockSamples(batch);
}

int64_t Pixels(const Conv2dShape& shape) { return shape.height * shape.width; }

// Products that make up one output.
int64_t Depth(const Conv2dShape& shape) {
  return shape.kernel * shape.kernel * shape.in;
}

// Pixels of a line of a sample with its border.
int64_t PaddedWidth(const Conv2dShape& shape) {
  return shape.width + shape.kernel - 1;
}

int64_t PaddedElems(const Conv2dShape& shape) {
  return RoundUp(
      (shape.height + shape.kernel - 1) * PaddedWidth(shape) * shape.in,
      kAlignElems);
}

// The convolution that takes dy to dx.
Conv2dShape Reversed(Conv2dShape shape) {
  std::swap(shape.in, shape.out);
  return shape;
}

int64_t ForwardScratchElems(const Conv2dShape& shape) {
  return (Depth(shape) + 1) * RoundUp(shape.out, kMaxCols) +
         std::min(shape.batch, kMaxBlocks) * PaddedElems(shape);
}

// The scratch of a block of samples, in elements: a sample of x with its
// border, a sample of dy with padded columns, and sums for dweight and dbias.
int64_t GradientBlockElems(const Conv2dShape& shape, int64_t cols) {
  const bool is_dy_copied = cols != shape.out;
  return PaddedElems(shape) + (is_dy_copied ? Pixels(shape) * cols : 0) +
         (Depth(shape) + 1) * cols;
}

// Copies a sample, with a border of zeros.
template <typename T>
void PadSample(const Conv2dShape& shape, const T* x, T* padded) {
  const int64_t border = shape.kernel / 2;
  const int64_t line = shape.width * shape.in;
  const int64_t side = border * shape.in;
  const int64_t edge = border * PaddedWidth(shape) * shape.in;
  T* to = std::fill_n(padded, edge, T{0});
  for (int64_t row = 0; row < shape.height; ++row) {
    to = std::fill_n(to, side, T{0});
    to = std::copy_n(x + row * line, line, to);
    to = std::fill_n(to, side, T{0});
  }
  std::fill_n(to, edge, T{0});
}

// packed [depth,cols] = the weights with the output channels innermost, then
// zeros; of the reversed convolution if is_reversed.
template <typename T>
void PackWeights(ThreadPool& pool, const Conv2dShape& shape, bool is_reversed,
                 const T* weight, int64_t cols, T* packed) {
  const int64_t taps = shape.kernel * shape.kernel;
  pool.ParallelFor(Depth(shape), kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      T* const to = packed + row * cols;
      // The reversed convolution runs over the kernel from its end, and from
      // each output channel to the input channels, which are `out` here.
      const int64_t tap = taps - 1 - row / shape.in;
      const T* const from =
          is_reversed ? weight + (row % shape.in * taps + tap) * shape.out
                      : weight + row;
      const int64_t stride = is_reversed ? 1 : Depth(shape);
      for (int64_t i = 0; i < shape.out; ++i) to[i] = from[i * stride];
      std::fill(to + shape.out, to + cols, T{0});
    }
  });
}

// A line is cut into tiles of about the same length: a last tile of one row
// would cost half a whole one.
struct Tiling {
  int64_t count;
  int64_t tiles;

  int64_t Begin(int64_t tile) const { return count * tile / tiles; }
};

template <typename Tile>
Tiling TilingOf(int64_t count) {
  return {count, (count + Tile::kRows - 1) / Tile::kRows};
}

// No lambdas in kernels: they would be compiled for the baseline.

// y [height,width,out] = bias + packed weights over a padded sample.
template <typename Tile, typename T>
RM_KERNEL void ForwardSample(const Conv2dShape& shape, int64_t cols,
                             const T* padded, const T* packed, const T* bias,
                             T* y) {
  constexpr int kCols = Tile::template kCols<T>;
  const int64_t line = PaddedWidth(shape) * shape.in;
  const ConvSteps steps = {shape.kernel, shape.kernel * shape.in};
  const Tiling tiling = TilingOf<Tile>(shape.width);
  T edge[Tile::kRows * kCols];
  // Only kCols columns of a large layer's weights stay in a cache.
  for (int64_t col = 0; col < cols; col += kCols) {
    const int64_t wanted = std::min<int64_t>(kCols, shape.out - col);
    const bool is_whole = wanted == kCols;
    const ConvRight<T> right = {packed + col, steps.inner * cols, cols};
    for (int64_t tile = 0; tile < shape.height * tiling.tiles; ++tile) {
      const int64_t row = tile / tiling.tiles;
      const int64_t begin = tiling.Begin(tile % tiling.tiles);
      const int64_t count = tiling.Begin(tile % tiling.tiles + 1) - begin;
      const ConvLeft<T> left = {padded + row * line + begin * shape.in,
                                shape.in, line, 1};
      T* const to = y + (row * shape.width + begin) * shape.out + col;
      ConvTile<Tile, T>(
          count, steps, left, right, {bias + col, 0},
          is_whole ? ConvRows<T>{to, shape.out} : ConvRows<T>{edge, kCols});
      for (int64_t i = 0; !is_whole && i < count; ++i)
        std::copy_n(edge + i * kCols, wanted, to + i * shape.out);
    }
  }
}

// sums [depth + 1,cols] += the gradients of the weights, and in the last row of
// the bias, from `lines` lines of a sample; padded begins above them, dy
// [lines,width,cols] with them.
template <typename Tile, typename T>
RM_KERNEL void SumLines(const Conv2dShape& shape, int64_t lines, int64_t cols,
                        const T* padded, const T* dy, T* sums) {
  constexpr int kCols = Tile::template kCols<T>;
  const int64_t line = PaddedWidth(shape) * shape.in;
  const ConvSteps steps = {lines, shape.width};
  const Tiling tiling = TilingOf<Tile>(shape.kernel * shape.in);
  const int64_t tiles = shape.kernel * tiling.tiles;
  const T one = 1;
  for (int64_t col = 0; col < cols; col += kCols) {
    const ConvRight<T> right = {dy + col, shape.width * cols, cols};
    // One more, for the bias.
    for (int64_t tile = 0; tile <= tiles; ++tile) {
      const int64_t kernel_row = tile / tiling.tiles;
      const int64_t begin = tiling.Begin(tile % tiling.tiles);
      const int64_t count = tiling.Begin(tile % tiling.tiles + 1) - begin;
      const ConvLeft<T> left =
          tile == tiles ? ConvLeft<T>{&one, 0, 0, 0}
                        : ConvLeft<T>{padded + kernel_row * line + begin, 1,
                                      line, shape.in};
      T* const to = sums + (kernel_row * tiling.count + begin) * cols + col;
      ConvTile<Tile, T>(tile == tiles ? 1 : count, steps, left, right,
                        {to, cols}, {to, cols});
    }
  }
}

// The same from a whole sample.
template <typename Tile, typename T>
RM_KERNEL void SumSample(const Conv2dShape& shape, int64_t cols,
                         const T* padded, const T* dy, T* sums) {
  const int64_t line = PaddedWidth(shape) * shape.in;
  const int64_t most =
      std::max<int64_t>(1, kCachedElems / (line + shape.width * cols));
  for (int64_t row = 0; row < shape.height; row += most) {
    SumLines<Tile, T>(shape, std::min(most, shape.height - row), cols,
                      padded + row * line, dy + row * shape.width * cols, sums);
  }
}

// rows[0] += rows[stride], rows[2 * stride], ...
template <typename T>
RM_KERNEL void AddBlocks(int64_t count, int64_t blocks, int64_t stride,
                         T* __restrict rows) {
  for (int64_t block = 1; block < blocks; ++block) {
    const T* const from = rows + block * stride;
    for (int64_t i = 0; i < count; ++i) rows[i] += from[i];
  }
}

// Calls run(tile) with the tile of this processor.
template <typename Run>
void WithTile(const Run& run) {
  switch (CurrentIsa()) {
    case CpuIsa::kAvx512:
      return run(Avx512Tile{});
    case CpuIsa::kAvx2:
      return run(Avx2Tile{});
    case CpuIsa::kBaseline:
      return run(BaselineTile{});
  }
}

// Forward, or with is_reversed and the shape that belongs to it, from dy to dx.
template <typename T>
void Convolve(const Compute& compute, const Conv2dShape& shape,
              bool is_reversed, const T* x, const T* weight, const T* bias,
              T* scratch, T* y) {
  WithTile([&]<typename Tile>(Tile) {
    const int64_t cols = RoundUp(shape.out, Tile::template kCols<T>);
    T* const packed = scratch;
    T* const start = packed + Depth(shape) * cols;
    T* const samples = start + RoundUp(cols, kAlignElems);
    PackWeights<T>(compute.pool, shape, is_reversed, weight, cols, packed);
    std::fill_n(start, cols, T{0});
    if (bias != nullptr) std::copy_n(bias, shape.out, start);
    const int64_t grain = BlockSamples(shape.batch);
    compute.pool.ParallelFor(
        shape.batch, grain, [&](int64_t begin, int64_t end) {
          T* const padded = samples + begin / grain * PaddedElems(shape);
          for (int64_t sample = begin; sample < end; ++sample) {
            PadSample<T>(shape, x + sample * Pixels(shape) * shape.in, padded);
            CallOnCpuFma<ForwardSample<Tile, T>>(
                shape, cols, static_cast<const T*>(padded),
                static_cast<const T*>(packed), static_cast<const T*>(start),
                y + sample * Pixels(shape) * shape.out);
          }
        });
  });
}

// Scratch of one block of samples while going back.
template <typename T>
struct GradientBlock {
  T* padded;
  T* dy;
  T* sums;
};

template <typename T>
GradientBlock<T> GradientBlockAt(const Conv2dShape& shape, int64_t cols,
                                 T* begin) {
  T* const dy = begin + PaddedElems(shape);
  return {begin, dy, dy + (cols != shape.out ? Pixels(shape) * cols : 0)};
}

template <typename Tile, typename T>
void SumBlock(const Conv2dShape& shape, int64_t cols, int64_t samples,
              const T* x, const T* dy, const GradientBlock<T>& block) {
  std::fill_n(block.sums, (Depth(shape) + 1) * cols, T{0});
  for (int64_t sample = 0; sample < samples; ++sample) {
    PadSample<T>(shape, x + sample * Pixels(shape) * shape.in, block.padded);
    const T* from = dy + sample * Pixels(shape) * shape.out;
    if (cols != shape.out) {
      T* to = block.dy;
      for (int64_t pixel = 0; pixel < Pixels(shape); ++pixel) {
        to = std::copy_n(from + pixel * shape.out, shape.out, to);
        to = std::fill_n(to, cols - shape.out, T{0});
      }
      from = block.dy;
    }
    CallOnCpuFma<SumSample<Tile, T>>(
        shape, cols, static_cast<const T*>(block.padded), from, block.sums);
  }
}

// Adds up the blocks' sums [depth + 1,cols] and writes them where they belong.
template <typename T>
void WriteGradients(ThreadPool& pool, const Conv2dShape& shape, int64_t cols,
                    int64_t stride, Write write, T* sums, T* dweight,
                    T* dbias) {
  const int64_t depth = Depth(shape);
  const int64_t blocks = Blocks(shape.batch);
  pool.ParallelFor(depth + 1, kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      T* const sum = sums + row * cols;
      if (blocks == 0) std::fill_n(sum, cols, T{0});
      CallOnCpuFma<AddBlocks<T>>(shape.out, blocks, stride, sum);
      T* const to = row < depth ? dweight + row : dbias;
      const int64_t to_stride = row < depth ? depth : 1;
      for (int64_t i = 0; i < shape.out; ++i) {
        T& element = to[i * to_stride];
        element = write == Write::kAdd ? element + sum[i] : sum[i];
      }
    }
  });
}

}  // namespace

int64_t Conv2dScratchElems(const Compute& /*compute*/,
                           const Conv2dShape& shape) {
  // At least one block, where the sum of an empty batch is made.
  const int64_t blocks = std::clamp<int64_t>(shape.batch, 1, kMaxBlocks);
  // Narrower tiles need no more: they have fewer columns, and where widest ones
  // need no copy of dy, neither do they.
  const int64_t backward =
      blocks * GradientBlockElems(shape, RoundUp(shape.out, kMaxCols));
  return std::max({ForwardScratchElems(shape),
                   ForwardScratchElems(Reversed(shape)), backward});
}

template <typename T>
void Conv2dForward(const Compute& compute, const Conv2dShape& shape, const T* x,
                   const T* weight, const T* bias, Conv2dScratch<T> scratch,
                   T* y) {
  Convolve<T>(compute, shape, /*is_reversed=*/false, x, weight, bias,
              scratch.data, y);
}

template <typename T>
void Conv2dBackwardInput(const Compute& compute, const Conv2dShape& shape,
                         const T* dy, const T* weight, Conv2dScratch<T> scratch,
                         T* dx) {
  Convolve<T>(compute, Reversed(shape), /*is_reversed=*/true, dy, weight,
              /*bias=*/nullptr, scratch.data, dx);
}

template <typename T>
void Conv2dBackwardParameters(const Compute& compute, const Conv2dShape& shape,
                              Write write, const T* dy, const T* x,
                              Conv2dScratch<T> scratch, T* dweight, T* dbias) {
  WithTile([&]<typename Tile>(Tile) {
    const int64_t cols = RoundUp(shape.out, Tile::template kCols<T>);
    const int64_t stride = GradientBlockElems(shape, cols);
    const int64_t grain = BlockSamples(shape.batch);
    compute.pool.ParallelFor(
        shape.batch, grain, [&](int64_t begin, int64_t end) {
          SumBlock<Tile, T>(
              shape, cols, end - begin, x + begin * Pixels(shape) * shape.in,
              dy + begin * Pixels(shape) * shape.out,
              GradientBlockAt<T>(shape, cols,
                                 scratch.data + begin / grain * stride));
        });
    WriteGradients<T>(compute.pool, shape, cols, stride, write,
                      GradientBlockAt<T>(shape, cols, scratch.data).sums,
                      dweight, dbias);
  });
}

#define RM_INSTANTIATE(T)                                                      \
  template void Conv2dForward<T>(const Compute&, const Conv2dShape&, const T*, \
                                 const T*, const T*, Conv2dScratch<T>, T*);    \
  template void Conv2dBackwardInput<T>(const Compute&, const Conv2dShape&,     \
                                       const T*, const T*, Conv2dScratch<T>,   \
                                       T*);                                    \
  template void Conv2dBackwardParameters<T>(                                   \
      const Compute&, const Conv2dShape&, Write, const T*, const T*,           \
      Conv2dScratch<T>, T*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster
