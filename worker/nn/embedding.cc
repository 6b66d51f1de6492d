#include "worker/nn/embedding.h"

#include <algorithm>

#include "common/tensor/cpu_dispatch.h"

namespace ringmaster {
namespace {

template <typename T>
RM_KERNEL void ScatterAddKernel(const int32_t* ids, int64_t count, int64_t dim,
                                const T* __restrict dy, T* __restrict dtable) {
  for (int64_t i = 0; i < count; ++i) {
    T* __restrict row = dtable + ids[i] * dim;
    for (int64_t j = 0; j < dim; ++j) row[j] += dy[i * dim + j];
  }
}

}  // namespace

template <typename T>
void EmbeddingForward(const Compute& /*compute*/, EmbeddingShape shape,
                      const int32_t* ids, const T* table, T* y) {
  for (int64_t i = 0; i < shape.count; ++i)
    std::copy_n(table + ids[i] * shape.dim, shape.dim, y + i * shape.dim);
}

template <typename T>
void EmbeddingBackward(const Compute& /*compute*/, EmbeddingShape shape,
                       Write write, const int32_t* ids, const T* dy,
                       int32_t* /*scratch*/, T* dtable) {
  if (write == Write::kSet)
    std::fill_n(dtable, shape.vocabulary * shape.dim, T{0});
  CallOnCpu<ScatterAddKernel<T>>(ids, shape.count, shape.dim, dy, dtable);
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
