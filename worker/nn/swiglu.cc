#include "worker/nn/swiglu.h"

#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"
#include "worker/nn/fast_exp.h"

namespace ringmaster {
namespace {

// Elements that a thread takes at once.
constexpr int64_t kGrain = 16384;

template <typename T>
RM_KERNEL T Logistic(T x) {
  return T{1} / (T{1} + FastExp(-x));
}

template <typename T>
RM_KERNEL void ForwardKernel(int64_t count, const T* __restrict gate,
                             const T* __restrict up, T* __restrict y) {
  for (int64_t i = 0; i < count; ++i)
    y[i] = gate[i] * Logistic(gate[i]) * up[i];
}

// dgate may be dy: an element is read before it is written.
template <typename T>
RM_KERNEL void BackwardKernel(int64_t count, const T* __restrict gate,
                              const T* __restrict up, const T* dy, T* dgate,
                              T* __restrict dup) {
  for (int64_t i = 0; i < count; ++i) {
    const T s = Logistic(gate[i]);
    const T gradient = dy[i];
    dup[i] = gradient * gate[i] * s;
    dgate[i] = gradient * up[i] * s * (T{1} + gate[i] * (T{1} - s));
  }
}

}  // namespace

template <typename T>
void SwiGluForward(const Compute& compute, int64_t count, const T* gate,
                   const T* up, T* y) {
  compute.pool.ParallelFor(count, kGrain, [&](int64_t begin, int64_t end) {
    CallOnCpuFma<ForwardKernel<T>>(end - begin, gate + begin, up + begin,
                                   y + begin);
  });
}

template <typename T>
void SwiGluBackward(const Compute& compute, int64_t count, const T* gate,
                    const T* up, const T* dy, T* dgate, T* dup) {
  compute.pool.ParallelFor(count, kGrain, [&](int64_t begin, int64_t end) {
    CallOnCpuFma<BackwardKernel<T>>(end - begin, gate + begin, up + begin,
                                    dy + begin, dgate + begin, dup + begin);
  });
}

#define RM_INSTANTIATE(T)                                                      \
  template void SwiGluForward<T>(const Compute&, int64_t, const T*, const T*,  \
                                 T*);                                          \
  template void SwiGluBackward<T>(const Compute&, int64_t, const T*, const T*, \
                                  const T*, T*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster
