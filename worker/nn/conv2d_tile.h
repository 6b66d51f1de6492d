// The inner loop of convolutions, for conv2d.cc alone: a tile of sums of
// products that stays in registers, over two nested dimensions.
//
// TileProduct's tile, with a walk over memory that follows an image's lines and
// a number of rows that may be smaller than the tile's, so that no line of
// pixels is padded.
// Thread-safety: pure. Compile with FMA_KERNEL_COPTS.
#ifndef RINGMASTER_WORKER_NN_CONV2D_TILE_H_
#define RINGMASTER_WORKER_NN_CONV2D_TILE_H_

#include <cstdint>

#include "common/tensor/cpu_dispatch.h"
#include "worker/nn/tile_product.h"

namespace ringmaster {

// Sums run over `outer` times `inner` steps.
struct ConvSteps {
  int64_t outer;
  int64_t inner;
};

// The layout of a factor: it is at
// data[outer * outer_stride + inner * inner_stride]. The left one is one number
// for each row of the tile, with rows row_stride apart; the right one is kCols
// consecutive numbers.
template <typename T>
struct ConvLeft {
  const T* data;
  int64_t row_stride;
  int64_t outer_stride;
  int64_t inner_stride;
};
template <typename T>
struct ConvRight {
  const T* data;
  int64_t outer_stride;
  int64_t inner_stride;
};

// Rows of kCols; with a stride of 0 all are the same one.
template <typename T>
struct ConvRows {
  T* data;
  int64_t stride;
};

// c = start + sum of left * right, for kRows rows; start may be c.
template <typename Tile, int kRows, typename T>
RM_KERNEL void ConvTileOf(ConvSteps steps, const ConvLeft<T>& left,
                          const ConvRight<T>& right, ConvRows<const T> start,
                          ConvRows<T> c) {
  using Vector = typename VectorOf<T, Tile::kBytes>::Type;
  constexpr int kLanes = Tile::template kCols<T> / 2;
  Vector sums[kRows][2];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) sums[i][0] = sums[i][1] = Vector{};
  for (int64_t outer = 0; outer < steps.outer; ++outer) {
    const T* a = left.data + outer * left.outer_stride;
    const T* b = right.data + outer * right.outer_stride;
    for (int64_t inner = 0; inner < steps.inner; ++inner) {
      const Vector b0 = *reinterpret_cast<const Vector*>(b);
      const Vector b1 = *reinterpret_cast<const Vector*>(b + kLanes);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        const T x = a[i * left.row_stride];
        sums[i][0] += x * b0;
        sums[i][1] += x * b1;
      }
      a += left.inner_stride;
      b += right.inner_stride;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    const auto* const from =
        reinterpret_cast<const Vector*>(start.data + i * start.stride);
    auto* const to = reinterpret_cast<Vector*>(c.data + i * c.stride);
    to[0] = from[0] + sums[i][0];
    to[1] = from[1] + sums[i][1];
  }
}

// The same for 1 <= rows <= Tile::kRows.
template <typename Tile, typename T, int kRows = Tile::kRows>
RM_KERNEL void ConvTile(int64_t rows, ConvSteps steps, const ConvLeft<T>& left,
                        const ConvRight<T>& right, ConvRows<const T> start,
                        ConvRows<T> c) {
  if constexpr (kRows > 1) {
    if (rows < kRows)
      return ConvTile<Tile, T, kRows - 1>(rows, steps, left, right, start, c);
  }
  ConvTileOf<Tile, kRows, T>(steps, left, right, start, c);
}

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_CONV2D_TILE_H_
