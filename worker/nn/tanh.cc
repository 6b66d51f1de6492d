#include "worker/nn/tanh.h"

#include <cmath>

#include "common/sync/thread_pool.h"

namespace ringmaster {
namespace {

// Elements that a thread takes at once. There are few: one vector a sample.
constexpr int64_t kGrain = 4096;

}  // namespace

template <typename T>
void TanhForward(const Compute& compute, int64_t count, T* x) {
  compute.pool.ParallelFor(count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) x[i] = std::tanh(x[i]);
  });
}

template <typename T>
void TanhBackward(const Compute& compute, int64_t count, const T* y,
                  const T* dy, T* dx) {
  compute.pool.ParallelFor(count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) dx[i] = dy[i] * (T{1} - y[i] * y[i]);
  });
}

#define RM_INSTANTIATE(T)                                                    \
  template void TanhForward<T>(const Compute&, int64_t, T*);                 \
  template void TanhBackward<T>(const Compute&, int64_t, const T*, const T*, \
                                T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster
