// PixelsForward: y [count] = pixels / 255. T is float or double.
//
// Thread-safety: as Compute.
#ifndef RINGMASTER_WORKER_NN_PIXELS_H_
#define RINGMASTER_WORKER_NN_PIXELS_H_

#include <cstdint>

#include "common/sync/thread_pool.h"
#include "worker/nn/compute.h"

namespace ringmaster {

template <typename T>
void PixelsForward(const Compute& compute, int64_t count, const uint8_t* pixels,
                   T* y) {
  // Pixels that a thread converts at once.
  constexpr int64_t kGrain = 16384;
  compute.pool.ParallelFor(count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      y[i] = static_cast<T>(pixels[i]) / T{255};
  });
}

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_PIXELS_H_
