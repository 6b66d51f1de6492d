#include "worker/nn/embedding.h"

#include <algorithm>

#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"

namespace ringmaster {
namespace {

// Elements that a thread takes at once.
constexpr int64_t kGrain = 16384;
// Columns that a thread adds up at once: whole cache lines.
constexpr int64_t kColumnGrain = 128;

// Adds `width` columns of `count` rows of dy to the rows that ids name.
template <typename T>
RM_KERNEL void ScatterAddKernel(int64_t count, int64_t dim, int64_t width,
                                const int32_t* ids, const T* __restrict dy,
                                T* __restrict dtable) {
  for (int64_t row = 0; row < count; ++row) {
    T* __restrict to = dtable + ids[row] * dim;
    const T* __restrict from = dy + row * dim;
    for (int64_t i = 0; i < width; ++i) to[i] += from[i];
  }
}

}  // namespace

template <typename T>
void EmbeddingForward(const Compute& compute, EmbeddingShape shape,
                      const int32_t* ids, const T* table, T* y) {
  const int64_t dim = shape.dim;
  const auto copy = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      std::copy_n(table + ids[i] * dim, dim, y + i * dim);
  };
  compute.pool.ParallelFor(shape.count, std::max<int64_t>(1, kGrain / dim),
                           copy);
}

template <typename T>
void EmbeddingBackward(const Compute& compute, EmbeddingShape shape,
                       Write write, const int32_t* ids, const T* dy,
                       int32_t* /*scratch*/, T* dtable) {
  if (write == Write::kSet) {
    const auto clear = [&](int64_t begin, int64_t end) {
      std::fill(dtable + begin, dtable + end, T{0});
    };
    compute.pool.ParallelFor(shape.vocabulary * shape.dim, kGrain, clear);
  }
  // Threads share out the columns, not the rows: an id may occur anywhere.
  const auto run = [&](int64_t begin, int64_t end) {
    CallOnCpu<ScatterAddKernel<T>>(shape.count, shape.dim, end - begin, ids,
                                   dy + begin, dtable + begin);
  };
  compute.pool.ParallelFor(shape.dim, kColumnGrain, run);
}

#define RM_INSTANTIATE(T)                                                   \
  template void EmbeddingForward<T>(const Compute&, EmbeddingShape,         \
                                    const int32_t*, const T*, T*);          \
  template void EmbeddingBackward<T>(const Compute&, EmbeddingShape, Write, \
                                     const int32_t*, const T*, int32_t*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster
