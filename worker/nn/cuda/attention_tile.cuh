// Tiles of attention: rows of one head in shared memory, and their products.
//
// A block owns kOwnRows rows (queries or keys) and walks over the others in
// tiles of kOtherRows. Its threads form a grid of kRowThreads x kLanes: a thread
// has the rows row_thread + i * kRowThreads of the owned tile, and of those the
// columns lane + j * kLanes. So the lanes of a row are half a warp, and shuffles
// reduce over them.
// In shared memory everything is float; a row is padded by four floats, so that
// the lanes' vector loads from different rows meet in no bank.
#ifndef RINGMASTER_WORKER_NN_CUDA_ATTENTION_TILE_CUH_
#define RINGMASTER_WORKER_NN_CUDA_ATTENTION_TILE_CUH_

#include <cstdint>

#include "worker/device/cuda/kernel.cuh"
#include "worker/nn/cuda/element.h"
#include "worker/nn/cuda/kernel_parts.cuh"

namespace ringmaster::cuda::attention {

constexpr int kLanes = 16;
constexpr int kRowPadding = 4;

template <int kHeadDim, int kTheOwnRows, int kTheOtherRows, int kTheRowThreads>
struct Tiling {
  static constexpr int kDim = kHeadDim;  // head_dim, rounded up
  static constexpr int kOwnRows = kTheOwnRows;
  static constexpr int kOtherRows = kTheOtherRows;
  static constexpr int kRowThreads = kTheRowThreads;
  static constexpr int kThreads = kRowThreads * kLanes;
  static constexpr int kRows = kOwnRows / kRowThreads;  // of a thread
  static constexpr int kCols = kOtherRows / kLanes;
  static constexpr int kDims = kDim / kLanes;
  static constexpr int kStride = kDim + kRowPadding;
  static constexpr int kWeightStride = kOtherRows + kRowPadding;
  static constexpr int kOwnElems = kOwnRows * kStride;
  static constexpr int kOtherElems = kOtherRows * kStride;
  static constexpr int kWeightElems = kOwnRows * kWeightStride;
};

// Products of the owned rows with the others.
template <typename Tile>
struct Scores {
  float at[Tile::kRows][Tile::kCols] = {};
};

// Sums over the other rows.
template <typename Tile>
struct Sums {
  float at[Tile::kRows][Tile::kDims] = {};
};

template <typename Tile>
__device__ inline int Lane() {
  return static_cast<int>(threadIdx.x) % kLanes;
}
// The owned row of this thread's row i.
template <typename Tile>
__device__ inline int OwnRow(int i) {
  return static_cast<int>(threadIdx.x) / kLanes + i * Tile::kRowThreads;
}
// The other row of this thread's column j.
template <typename Tile>
__device__ inline int OtherRow(int j) {
  return Lane<Tile>() + j * kLanes;
}

// Copies `rows` rows of `dim` elements, which lie `stride` apart, to a tile of
// kTileRows; what is left of the tile becomes zero. kWidth elements at a time,
// which must divide dim, and whose size the addresses of rows.
template <typename Tile, int kTileRows, int kWidth, typename T>
__device__ inline void LoadTileBy(const T* from, int64_t rows, int64_t stride,
                                  int dim, float* tile) {
  constexpr int kPieces = Tile::kDim / kWidth;
  // More at a time would take registers from the sums, and so blocks from the
  // multiprocessor.
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < kTileRows * kPieces;
       i += Tile::kThreads) {
    const int row = i / kPieces;
    const int d = i % kPieces * kWidth;
    Pack<kWidth, float> loaded = {};
    if (row < rows && d < dim)
      loaded = LoadFloats<kWidth>(from + row * stride + d);
    StorePack(loaded, tile + row * Tile::kStride + d);
  }
}

// The same; `is_packed` says whether it can be done by fours.
template <typename Tile, int kTileRows, typename T>
__device__ inline void LoadTile(const T* from, int64_t rows, int64_t stride,
                                int dim, bool is_packed, float* tile) {
  if (is_packed) {
    LoadTileBy<Tile, kTileRows, 4>(from, rows, stride, dim, tile);
  } else {
    LoadTileBy<Tile, kTileRows, 1>(from, rows, stride, dim, tile);
  }
}

__device__ inline float4 Load4(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}

// scores = own * other^T
template <typename Tile>
__device__ inline Scores<Tile> Multiply(const float* own, const float* other) {
  Scores<Tile> scores;
  for (int d = 0; d < Tile::kDim; d += 4) {
    float4 a[Tile::kRows];
    for (int i = 0; i < Tile::kRows; ++i)
      a[i] = Load4(own + OwnRow<Tile>(i) * Tile::kStride + d);
    for (int j = 0; j < Tile::kCols; ++j) {
      const float4 b = Load4(other + OtherRow<Tile>(j) * Tile::kStride + d);
      for (int i = 0; i < Tile::kRows; ++i) {
        scores.at[i][j] +=
            a[i].x * b.x + a[i].y * b.y + a[i].z * b.z + a[i].w * b.w;
      }
    }
  }
  return scores;
}

// Shows the block what this thread has, as weights [kOwnRows,kOtherRows].
template <typename Tile>
__device__ inline void StoreWeights(const Scores<Tile>& scores,
                                    float* weights) {
  for (int i = 0; i < Tile::kRows; ++i) {
    for (int j = 0; j < Tile::kCols; ++j) {
      weights[OwnRow<Tile>(i) * Tile::kWeightStride + OtherRow<Tile>(j)] =
          scores.at[i][j];
    }
  }
}

// sums += weights * other
template <typename Tile>
__device__ inline void AddProduct(const float* weights, const float* other,
                                  Sums<Tile>& sums) {
  for (int c = 0; c < Tile::kOtherRows; c += 4) {
    float4 a[Tile::kRows];
    for (int i = 0; i < Tile::kRows; ++i)
      a[i] = Load4(weights + OwnRow<Tile>(i) * Tile::kWeightStride + c);
    for (int j = 0; j < Tile::kDims; ++j) {
      const float* const column =
          other + c * Tile::kStride + Lane<Tile>() + j * kLanes;
      const float x = column[0];
      const float y = column[Tile::kStride];
      const float z = column[2 * Tile::kStride];
      const float w = column[3 * Tile::kStride];
      for (int i = 0; i < Tile::kRows; ++i) {
        sums.at[i][j] += a[i].x * x + a[i].y * y + a[i].z * z + a[i].w * w;
      }
    }
  }
}

// Writes factor(i) * sums to the first `rows` rows of the owned tile, `stride`
// apart in `to`.
template <typename Tile, typename T, typename Factor>
__device__ inline void StoreRows(const Sums<Tile>& sums, Factor factor,
                                 int64_t rows, int64_t stride, int dim, T* to) {
  for (int i = 0; i < Tile::kRows; ++i) {
    const int row = OwnRow<Tile>(i);
    if (row >= rows) continue;
    const float by = factor(i);
    for (int j = 0; j < Tile::kDims; ++j) {
      const int d = Lane<Tile>() + j * kLanes;
      if (d < dim) to[row * stride + d] = RoundTo<T>(sums.at[i][j] * by);
    }
  }
}

// Over the lanes of a row; all of them get the result.
__device__ inline float MaxOverLanes(float x) {
  for (int step = kLanes / 2; step > 0; step /= 2)
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}
__device__ inline float SumOverLanes(float x) {
  for (int step = kLanes / 2; step > 0; step /= 2)
    x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

}  // namespace ringmaster::cuda::attention

#endif  // RINGMASTER_WORKER_NN_CUDA_ATTENTION_TILE_CUH_
