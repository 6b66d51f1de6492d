#include "worker/nn/gather.h"

#include <algorithm>

#include "worker/nn/fill_zero.h"

namespace ringmaster {

// On one thread: heads that look at some rows look at few.
template <typename T>
void GatherForward(const Compute& /*compute*/, GatherShape shape,
                   const int32_t* places, const T* x, T* y) {
  for (int64_t i = 0; i < shape.count; ++i)
    std::copy_n(x + places[i] * shape.dim, shape.dim, y + i * shape.dim);
}

template <typename T>
void GatherBackward(const Compute& compute, GatherShape shape,
                    const int32_t* places, const T* dy, T* dx) {
  FillZero(compute, shape.rows * shape.dim, dx);
  for (int64_t i = 0; i < shape.count; ++i)
    std::copy_n(dy + i * shape.dim, shape.dim, dx + places[i] * shape.dim);
}

#define RM_INSTANTIATE(T)                                                      \
  template void GatherForward<T>(const Compute&, GatherShape, const int32_t*,  \
                                 const T*, T*);                                \
  template void GatherBackward<T>(const Compute&, GatherShape, const int32_t*, \
                                  const T*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster
