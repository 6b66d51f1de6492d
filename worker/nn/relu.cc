#include "worker/nn/relu.h"

#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"

namespace ringmaster {
namespace {

// Elements that a thread takes at once.
constexpr int64_t kGrain = 16384;

// Comparisons are such that NaN fails them.
template <typename T>
RM_KERNEL void ForwardKernel(int64_t count, T* x) {
  for (int64_t i = 0; i < count; ++i) x[i] = x[i] <= T{0} ? T{0} : x[i];
}

template <typename T>
RM_KERNEL void BackwardKernel(int64_t count, const T* __restrict y,
                              const T* __restrict dy, T* __restrict dx) {
  for (int64_t i = 0; i < count; ++i) dx[i] = y[i] <= T{0} ? T{0} : dy[i];
}

template <typename T>
RM_KERNEL void BackwardInPlaceKernel(int64_t count, const T* __restrict y,
                                     T* __restrict dx) {
  for (int64_t i = 0; i < count; ++i) dx[i] = y[i] <= T{0} ? T{0} : dx[i];
}

}  // namespace

template <typename T>
void ReluForward(const Compute& compute, int64_t count, T* x) {
  compute.pool.ParallelFor(count, kGrain, [&](int64_t begin, int64_t end) {
    CallOnCpu<ForwardKernel<T>>(end - begin, x + begin);
  });
}

template <typename T>
void ReluBackward(const Compute& compute, int64_t count, const T* y,
                  const T* dy, T* dx) {
  compute.pool.ParallelFor(count, kGrain, [&](int64_t begin, int64_t end) {
    if (dx == dy) {
      CallOnCpu<BackwardInPlaceKernel<T>>(end - begin, y + begin, dx + begin);
    } else {
      CallOnCpu<BackwardKernel<T>>(end - begin, y + begin, dy + begin,
                                   dx + begin);
    }
  });
}

template void ReluForward<float>(const Compute&, int64_t, float*);
template void ReluForward<double>(const Compute&, int64_t, double*);
template void ReluBackward<float>(const Compute&, int64_t, const float*,
                                  const float*, float*);
template void ReluBackward<double>(const Compute&, int64_t, const double*,
                                   const double*, double*);

}  // namespace ringmaster
