// TileProduct is a small matrix product that is held in registers, for
// operators that work in tiles which fit the caches and so need no BLAS.
//
// It has no packing and no edges: the caller's buffers are padded to whole
// register tiles. At tiles of 64 x 64 that makes it faster than a BLAS, whose
// calls copy their operands first.
//
// The shape of a register tile belongs to an instruction set, so the kernel is
// a template on it, and its caller picks by CurrentIsa(). Written with the
// compiler's vector types (the same in GCC and clang), because no loop over an
// array of sums is sure to keep them in registers.
// Thread-safety: pure. Compile with FMA_KERNEL_COPTS.
#ifndef RINGMASTER_WORKER_NN_TILE_PRODUCT_H_
#define RINGMASTER_WORKER_NN_TILE_PRODUCT_H_

#include <cstdint>

#include "common/tensor/cpu_dispatch.h"
#include "worker/nn/compute.h"

namespace ringmaster {

// A vector of kBytes that may lie anywhere, over memory of type T.
template <typename T, int kBytes>
struct VectorOf {
  // NOLINTNEXTLINE(modernize-use-using): `using` takes no attributes in GCC.
  typedef T Type
      __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));
};

// kRows rows of two vectors of kBytes each: the sums that fit into registers
// beside two vectors of b, and enough of them to hide the latency of an
// addition.
template <int kBytes_, int kRows_>
struct RegisterTile {
  static constexpr int kBytes = kBytes_;
  static constexpr int kRows = kRows_;
  template <typename T>
  static constexpr int kCols = 2 * kBytes / static_cast<int>(sizeof(T));
};
using Avx512Tile = RegisterTile<64, 8>;
using Avx2Tile = RegisterTile<32, 4>;
using BaselineTile = RegisterTile<16, 4>;

// The left operand, whose element (i, l) lies at data[i * row_stride +
// l * col_stride]: so it may be a transpose.
template <typename T>
struct Strided {
  const T* data;
  int64_t row_stride;
  int64_t col_stride;
};

// c [kRows,kCols] = or += a [kRows,k] * b [k,kCols]; rows of b and c are ldb and
// ldc elements apart.
template <typename Tile, typename T>
RM_KERNEL void TileProduct(int64_t k, Strided<T> a, const T* b, int64_t ldb,
                           Write write, T* c, int64_t ldc) {
  using Vector = typename VectorOf<T, Tile::kBytes>::Type;
  constexpr int kRows = Tile::kRows;
  constexpr int kLanes = Tile::template kCols<T> / 2;
  Vector sums[kRows][2];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) sums[i][0] = sums[i][1] = Vector{};
  for (int64_t l = 0; l < k; ++l) {
    const Vector b0 = *reinterpret_cast<const Vector*>(b + l * ldb);
    const Vector b1 = *reinterpret_cast<const Vector*>(b + l * ldb + kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const T x = a.data[i * a.row_stride + l * a.col_stride];
      sums[i][0] += x * b0;
      sums[i][1] += x * b1;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    auto* const c0 = reinterpret_cast<Vector*>(c + i * ldc);
    auto* const c1 = reinterpret_cast<Vector*>(c + i * ldc + kLanes);
    *c0 = write == Write::kAdd ? *c0 + sums[i][0] : sums[i][0];
    *c1 = write == Write::kAdd ? *c1 + sums[i][1] : sums[i][1];
  }
}

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_TILE_PRODUCT_H_
