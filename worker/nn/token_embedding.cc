#include "worker/nn/token_embedding.h"

#include <algorithm>

#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"

namespace ringmaster {
namespace {

// Elements that a thread takes at once.
constexpr int64_t kGrain = 16384;

int64_t RowGrain(int64_t dim) { return std::max<int64_t>(1, kGrain / dim); }

template <typename T>
RM_KERNEL void AddRowsKernel(int64_t dim, const T* __restrict a,
                             const T* __restrict b, T* __restrict y) {
  for (int64_t i = 0; i < dim; ++i) y[i] = a[i] + b[i];
}

// total [dim] += the rows at `stride` from each other.
template <typename T>
RM_KERNEL void AddSamplesKernel(int64_t samples, int64_t stride, int64_t dim,
                                const T* __restrict dy, T* __restrict total) {
  for (int64_t sample = 0; sample < samples; ++sample) {
    for (int64_t i = 0; i < dim; ++i) total[i] += dy[sample * stride + i];
  }
}

}  // namespace

template <typename T>
void TokenEmbeddingForward(const Compute& compute, TokenEmbeddingShape shape,
                           const int32_t* ids, const T* tokens,
                           const T* positions, T* y) {
  const int64_t dim = shape.dim;
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      CallOnCpu<AddRowsKernel<T>>(dim, tokens + ids[i] * dim,
                                  positions + i % shape.window * dim,
                                  y + i * dim);
    }
  };
  compute.pool.ParallelFor(shape.samples * shape.window, RowGrain(dim), run);
}

template <typename T>
void TokenEmbeddingBackwardPositions(const Compute& compute,
                                     TokenEmbeddingShape shape, Write write,
                                     const T* dy, T* dpositions) {
  const int64_t dim = shape.dim;
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      T* const total = dpositions + t * dim;
      if (write == Write::kSet) std::fill_n(total, dim, T{0});
      CallOnCpu<AddSamplesKernel<T>>(shape.samples, shape.window * dim, dim,
                                     dy + t * dim, total);
    }
  };
  compute.pool.ParallelFor(
      shape.window, RowGrain(dim * std::max<int64_t>(1, shape.samples)), run);
}

#define RM_INSTANTIATE(T)                                                     \
  template void TokenEmbeddingForward<T>(const Compute&, TokenEmbeddingShape, \
                                         const int32_t*, const T*, const T*,  \
                                         T*);                                 \
  template void TokenEmbeddingBackwardPositions<T>(                           \
      const Compute&, TokenEmbeddingShape, Write, const T*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster
