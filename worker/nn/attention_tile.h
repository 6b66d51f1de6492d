// The matrices of attention.cc, one tile of queries and one of keys at a time:
// copies and transposes into scratch, and their products.
//
// Scratch is padded to whole tiles, and what is in the padding is multiplied
// too; its results stay in the padding. On the diagonal of causal attention (a
// tile of queries and the same tile of keys) products leave out what lies above
// it, in steps of a register tile.
// Thread-safety: pure. Compile with FMA_KERNEL_COPTS.
#ifndef RINGMASTER_WORKER_NN_ATTENTION_TILE_H_
#define RINGMASTER_WORKER_NN_ATTENTION_TILE_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "common/tensor/cpu_dispatch.h"
#include "worker/nn/compute.h"
#include "worker/nn/tile_product.h"

namespace ringmaster {

// Queries or keys of a tile: a multiple of every register tile's sides.
inline constexpr int64_t kTile = 64;
constexpr int64_t RoundUp(int64_t x, int64_t unit) {
  return (x + unit - 1) / unit * unit;
}

// to [rows,to_stride] = scale * from, in its first `dim` columns.
template <typename T>
RM_KERNEL void CopyRows(int64_t rows, int64_t dim, T scale,
                        const T* __restrict from, int64_t from_stride,
                        T* __restrict to, int64_t to_stride) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t d = 0; d < dim; ++d)
      to[r * to_stride + d] = scale * from[r * from_stride + d];
  }
}

// The transpose of a 4 x 4 block, in 128-bit vectors: the compiler finds no
// such thing in a loop.
RM_KERNEL void TransposeBlock(const float* from, int64_t from_stride,
                              float* to) {
  using Vector = VectorOf<float, 16>::Type;
  const auto row = [&](int64_t r) {
    return *reinterpret_cast<const Vector*>(from + r * from_stride);
  };
  const Vector a = row(0), b = row(1), c = row(2), d = row(3);
  const Vector ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Vector ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Vector cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Vector cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const auto out = [&](int64_t r) -> Vector& {
    return *reinterpret_cast<Vector*>(to + r * kTile);
  };
  out(0) = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
  out(1) = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
  out(2) = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
  out(3) = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
}

// to [dim,kTile] = the transpose of `rows` <= kTile rows.
template <typename T>
RM_KERNEL void TransposeRows(int64_t rows, int64_t dim, const T* from,
                             int64_t from_stride, T* to) {
  int64_t blocked_rows = 0;
  int64_t blocked_dim = 0;
  if constexpr (std::is_same_v<T, float>) {
    blocked_rows = rows / 4 * 4;
    blocked_dim = dim / 4 * 4;
    for (int64_t r = 0; r < blocked_rows; r += 4) {
      for (int64_t d = 0; d < blocked_dim; d += 4)
        TransposeBlock(from + r * from_stride + d, from_stride,
                       to + d * kTile + r);
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t d = r < blocked_rows ? blocked_dim : 0; d < dim; ++d)
      to[d * kTile + r] = from[r * from_stride + d];
  }
}

// scores [kTile,kTile] = a [rows,dim] * b [dim,kTile]: of queries and keys. On
// the diagonal, what lies above it is left as it is, except near it.
template <typename Tile, typename T>
RM_KERNEL void ScoreTile(int64_t rows, bool is_diagonal, int64_t dim,
                         const T* a, int64_t a_stride, const T* b, T* scores) {
  constexpr int64_t kCols = Tile::template kCols<T>;
  for (int64_t i = 0; i < rows; i += Tile::kRows) {
    const int64_t cols =
        is_diagonal ? std::min(kTile, RoundUp(i + Tile::kRows, kCols)) : kTile;
    for (int64_t j = 0; j < cols; j += kCols) {
      TileProduct<Tile, T>(dim, {a + i * a_stride, a_stride, 1}, b + j, kTile,
                           Write::kSet, scores + i * kTile + j, kTile);
    }
  }
}

// sums [rows of queries,dim] (+)= scores [queries,keys] * b [keys,dim].
template <typename Tile, typename T>
RM_KERNEL void AddOverKeys(int64_t rows, int64_t all_keys, bool is_diagonal,
                           const T* scores, const T* b, int64_t stride,
                           Write write, T* sums) {
  for (int64_t i = 0; i < rows; i += Tile::kRows) {
    const int64_t keys =
        is_diagonal ? std::min<int64_t>(all_keys, i + Tile::kRows) : all_keys;
    for (int64_t j = 0; j < stride; j += Tile::template kCols<T>) {
      TileProduct<Tile, T>(keys, {scores + i * kTile, kTile, 1}, b + j, stride,
                           write, sums + i * stride + j, stride);
    }
  }
}

// sums [rows of keys,dim] (+)= scores [queries,keys]^T * b [queries,dim].
template <typename Tile, typename T>
RM_KERNEL void AddOverQueries(int64_t queries, bool is_diagonal,
                              const T* scores, const T* b, int64_t stride,
                              Write write, T* sums) {
  const int64_t keys = is_diagonal ? queries : kTile;
  for (int64_t i = 0; i < keys; i += Tile::kRows) {
    const int64_t first = is_diagonal ? i : 0;
    for (int64_t j = 0; j < stride; j += Tile::template kCols<T>) {
      TileProduct<Tile, T>(
          queries - first, {scores + first * kTile + i, 1, kTile},
          b + first * stride + j, stride, write, sums + i * stride + j, stride);
    }
  }
}

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_ATTENTION_TILE_H_
