#include "worker/nn/cuda/embedding.h"
#include "worker/nn/cuda/id_order.h"
#include "worker/nn/cuda/kernel_parts.cuh"

namespace ringmaster::cuda {
namespace {

// A thread for each pack of y [rows,dim]. `positions` is null or has `window`
// rows.
template <int kWidth, typename T>
__global__ void ForwardKernel(int64_t rows, int64_t dim, int64_t window,
                              const int32_t* ids, const T* table,
                              const T* positions, T* y) {
  const int64_t packs = dim / kWidth;  // of a row
  for (int64_t pack =
           static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       pack < rows * packs;
       pack += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t row = pack / packs;
    const int64_t column = pack % packs * kWidth;
    const T* const token = table + ids[row] * dim + column;
    T* const to = y + row * dim + column;
    if (positions == nullptr) {
      StorePack(LoadPack<kWidth>(token), to);
      continue;
    }
    Pack<kWidth, float> sum = LoadFloats<kWidth>(token);
    const Pack<kWidth, float> add =
        LoadFloats<kWidth>(positions + row % window * dim + column);
    for (int k = 0; k < kWidth; ++k) sum.elems[k] += add.elems[k];
    StoreFloats(sum, to);
  }
}

// Adds rows of dy to `total`, one after another: those at row_at(0), row_at(1), ...
template <int kWidth, typename T, typename RowAt>
__device__ void AddRows(int64_t rows, const RowAt& row_at, int64_t dim,
                        int64_t column, const T* dy,
                        Pack<kWidth, float>& total) {
  // The order of additions is fixed, but not that of loads: several are under way
  // at once.
  constexpr int kLoads = 8;
  int64_t i = 0;
  for (; i + kLoads <= rows; i += kLoads) {
    Pack<kWidth, T> loaded[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k)
      loaded[k] = LoadPack<kWidth>(dy + row_at(i + k) * dim + column);
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      for (int j = 0; j < kWidth; ++j)
        total.elems[j] += ToFloat(loaded[k].elems[j]);
    }
  }
  for (; i < rows; ++i) {
    const auto row = LoadFloats<kWidth>(dy + row_at(i) * dim + column);
    for (int k = 0; k < kWidth; ++k) total.elems[k] += row.elems[k];
  }
}

// A block for each place of an id, in the sorted order; the block of an id's first
// one adds up all of them.
template <int kWidth, typename T>
__global__ void __launch_bounds__(kMaxThreads)
    BackwardKernel(int64_t count, int64_t dim, const int32_t* ids,
                   const int32_t* places, const T* dy, float* dtable) {
  __shared__ int32_t rows[kMaxThreads];
  const int64_t first = blockIdx.x;
  const int32_t id = ids[places[first]];
  if (first > 0 && ids[places[first - 1]] == id) return;
  int found = static_cast<int>(blockDim.x);
  for (int64_t begin = first; found == static_cast<int>(blockDim.x);
       begin += blockDim.x) {
    __syncthreads();  // the last ones have been read
    const int64_t i = begin + threadIdx.x;
    const int32_t place = i < count ? places[i] : 0;
    const bool is_equal = i < count && ids[place] == id;
    rows[threadIdx.x] = place;
    found = __syncthreads_count(is_equal ? 1 : 0);
    for (int64_t column = static_cast<int64_t>(threadIdx.x) * kWidth;
         column < dim; column += static_cast<int64_t>(blockDim.x) * kWidth) {
      float* const to = dtable + id * dim + column;
      Pack<kWidth, float> total = LoadPack<kWidth>(to);
      AddRows(
          found, [&](int64_t k) { return static_cast<int64_t>(rows[k]); }, dim,
          column, dy, total);
      StorePack(total, to);
    }
  }
}

// A block for each position.
template <int kWidth, typename T>
__global__ void __launch_bounds__(kMaxThreads)
    PositionsKernel(TokenEmbeddingShape shape, Write write, const T* dy,
                    float* dpositions) {
  const int64_t position = blockIdx.x;
  for (int64_t column = static_cast<int64_t>(threadIdx.x) * kWidth;
       column < shape.dim;
       column += static_cast<int64_t>(blockDim.x) * kWidth) {
    float* const to = dpositions + position * shape.dim + column;
    Pack<kWidth, float> total = {};
    if (write == Write::kAdd) total = LoadPack<kWidth>(to);
    AddRows(
        shape.samples,
        [&](int64_t sample) { return sample * shape.window + position; },
        shape.dim, column, dy, total);
    StorePack(total, to);
  }
}

template <typename T>
void Forward(CudaStream& stream, const char* what, int64_t rows, int64_t dim,
             int64_t window, const int32_t* ids, const T* table,
             const T* positions, T* y) {
  if (rows * dim == 0) return;  // a grid of 0 blocks is an error
  constexpr int kWidth = kPackElems<T>;
  const bool is_packed = ArePacked(table, positions, y) && dim % kWidth == 0;
  const int64_t packs = rows * dim / (is_packed ? kWidth : 1);
  const dim3 grid(GridBlocks(CeilDivide(packs, kThreadsPerBlock)));
  stream.Check(
      LaunchKernel(is_packed ? ForwardKernel<kWidth, T> : ForwardKernel<1, T>,
                   grid, dim3(kThreadsPerBlock), 0, stream.get(), rows, dim,
                   window, ids, table, positions, y),
      what);
}

}  // namespace

template <typename T>
void EmbeddingForward(CudaStream& stream, EmbeddingShape shape,
                      const int32_t* ids, const T* table, T* y) {
  Forward<T>(stream, "embedding_forward", shape.count, shape.dim, 1, ids, table,
             nullptr, y);
}

template <typename T>
void TokenEmbeddingForward(CudaStream& stream, TokenEmbeddingShape shape,
                           const int32_t* ids, const T* tokens,
                           const T* positions, T* y) {
  Forward<T>(stream, "token_embedding_forward", shape.samples * shape.window,
             shape.dim, shape.window, ids, tokens, positions, y);
}

int64_t EmbeddingScratchElems(CudaStream& /*stream*/, int64_t ids) {
  return IdOrderScratchElems(ids);
}

template <typename T>
void EmbeddingBackward(CudaStream& stream, EmbeddingShape shape, Write write,
                       const int32_t* ids, const T* dy, int32_t* scratch,
                       float* dtable) {
  const int64_t dim = shape.dim;
  if (write == Write::kSet) {
    stream.FillZero(
        dtable, shape.vocabulary * dim * static_cast<int64_t>(sizeof(float)));
  }
  if (shape.count == 0) return;
  const int32_t* const places =
      SortPlacesById(stream, shape.count, shape.vocabulary, ids, scratch);
  constexpr int kWidth = kPackElems<T>;
  const dim3 grid(static_cast<unsigned>(shape.count));
  const bool is_packed = ArePacked(dy, dtable) && dim % kWidth == 0;
  stream.Check(
      is_packed
          ? LaunchKernel(BackwardKernel<kWidth, T>, grid,
                         dim3(BlockThreads(dim / kWidth)), 0, stream.get(),
                         shape.count, dim, ids, places, dy, dtable)
          : LaunchKernel(BackwardKernel<1, T>, grid, dim3(BlockThreads(dim)), 0,
                         stream.get(), shape.count, dim, ids, places, dy,
                         dtable),
      "embedding_backward");
}

template <typename T>
void TokenEmbeddingBackwardPositions(CudaStream& stream,
                                     TokenEmbeddingShape shape, Write write,
                                     const T* dy, float* dpositions) {
  if (shape.window == 0) return;
  constexpr int kWidth = kPackElems<T>;
  const dim3 grid(static_cast<unsigned>(shape.window));
  const bool is_packed = ArePacked(dy, dpositions) && shape.dim % kWidth == 0;
  stream.Check(is_packed
                   ? LaunchKernel(PositionsKernel<kWidth, T>, grid,
                                  dim3(BlockThreads(shape.dim / kWidth)), 0,
                                  stream.get(), shape, write, dy, dpositions)
                   : LaunchKernel(PositionsKernel<1, T>, grid,
                                  dim3(BlockThreads(shape.dim)), 0,
                                  stream.get(), shape, write, dy, dpositions),
               "token_embedding_backward of positions");
}

#define RM_INSTANTIATE(T)                                                    \
  template void EmbeddingForward<T>(CudaStream&, EmbeddingShape,             \
                                    const int32_t*, const T*, T*);           \
  template void TokenEmbeddingForward<T>(CudaStream&, TokenEmbeddingShape,   \
                                         const int32_t*, const T*, const T*, \
                                         T*);                                \
  template void EmbeddingBackward<T>(CudaStream&, EmbeddingShape, Write,     \
                                     const int32_t*, const T*, int32_t*,     \
                                     float*);                                \
  template void TokenEmbeddingBackwardPositions<T>(                          \
      CudaStream&, TokenEmbeddingShape, Write, const T*, float*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
